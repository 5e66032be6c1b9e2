"""Shipped tasks from data files to results, on a tiny random model and rows written here in the data sets' form."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

from harness import Service, service, wait_for
from test_service import REFERENCE, python_with_arrow

SENTENCES = [
    ("The cup did not fit into the bag because the _ was too big.", "cup", "bag", "1"),
    ("Ann thanked Eve because _ had helped her.", "Ann", "Eve", "2"),
    ("He took the bike and not the bus because the _ was late.", "bike", "bus", "2"),
    ("The dog chased the cat until the _ was up a tree.", "dog", "cat", "2"),
]


ECHO = """task: echo
output_type: generate_until
test_split: test
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
generation_kwargs: {until: ["\\n", "e"], max_gen_toks: 12}
headcount: {data: echo, splits: {test: rows.jsonl}}
"""


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


class TasksTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory(prefix="headcount-rows-")
        rows = Path(cls.folder.name)
        sentences = [
            {"sentence": sentence, "option1": one, "option2": two, "answer": answer}
            for sentence, one, two, answer in SENTENCES
        ]
        write_rows(rows / "winogrande" / "dev.jsonl", sentences)
        write_rows(rows / "winogrande" / "train_xl.jsonl", sentences)
        cls.echo = rows / "echo" / "rows.jsonl"
        cls.ask("?")
        sums = [{"question": f"{i} + 1?", "answer": f"It is {i + 1}.\n#### {i + 1}"} for i in range(6)]
        write_rows(rows / "gsm8k" / "test.jsonl", sums)
        write_rows(rows / "gsm8k" / "train.jsonl", sums)
        (rows / "tasks").mkdir()
        (rows / "tasks" / "echo.yaml").write_text(ECHO)
        cls.context = service(
            data={name: rows / name for name in ("winogrande", "echo", "gsm8k")}, task_dirs=[str(rows / "tasks")]
        )
        cls.service: Service = cls.context.__enter__()

    @classmethod
    def ask(cls, *answers: str) -> None:
        """Ten questions to continue, with these answers in turn."""
        write_rows(cls.echo, [{"q": f"Number {i}:", "a": answers[i % len(answers)]} for i in range(10)])

    @classmethod
    def tearDownClass(cls) -> None:
        cls.context.__exit__(None, None, None)
        cls.folder.cleanup()

    def test_winogrande_scores_one_ending_after_two_contexts(self) -> None:
        common = ("sweep", "--model=tiny", "--task=winogrande", "--scores=output_norm_ln", "--fractions=.2")
        job = self.service.submit(*common)
        self.service.finish(job)
        records = self.service.lines("samples", job, "--rule=-1", "--limit=0")
        self.assertEqual([r["sample"] for r in records[:3]], ["winogrande/0/0", "winogrande/0/1", "winogrande/1/0"])
        for record in records:
            self.assertEqual(len(record["log_likelihoods"]), 1)
        self.assertEqual([r["gold"] for r in records[::2]], [0, 1, 1, 1])
        # One token a byte: the context and the rest of the sentence without its last token.
        self.assertEqual(records[0]["tokens"], len("The cup did not fit into the bag because the cup was too big.") - 1)
        self.assertEqual(self.service.json("curves", job)["baseline"]["documents"], "4")

        shots = self.service.submit(*common, "--num-fewshot=2")
        self.service.finish(shots)
        with_shots = self.service.lines("samples", shots, "--rule=-1", "--limit=0")
        for short, long in zip(records, with_shots, strict=True):
            self.assertGreater(long["tokens"], short["tokens"] + 60)
        refused = self.service.refused("submit", *common, "--num-fewshot=101")
        self.assertIn("num_fewshot", refused.error["message"])

    def test_a_sweep_over_models_and_tasks(self) -> None:
        job = self.service.submit(
            *("sweep", "--model=tiny", "--with-model=tiny-qwen2", "--task=winogrande", "--with-task=echo"),
            *("--scores=output_norm_ln,random", "--fractions=.2", "--transfer", "--max-new-tokens=3"),
        )
        progress = self.service.finish(job)["progress"]
        self.assertEqual((progress["jobs"], progress["done_jobs"]), (8, 8))
        self.assertEqual(progress["done_rows"], progress["total_rows"])
        table = self.service.json("table", job)
        self.assertTrue(table["complete"])
        self.assertEqual(
            [side["label"] for side in table["sides"]],
            [
                f"{model} {task}"
                for model in ("tiny", "tiny-qwen2")
                for task in ("winogrande", "echo", "echo by winogrande", "winogrande by echo")
            ],
        )
        for first in (0, 4):
            winogrande, echo, by_winogrande, by_echo = table["sides"][first : first + 4]
            for own, other in ((winogrande, by_winogrande), (echo, by_echo)):
                self.assertTrue(own["curves"]["in_sample"])
                self.assertFalse(other["curves"].get("in_sample", False))
                self.assertEqual({c["id"] for c in own["curves"]["curves"]}, {"output_norm_ln", "random"})
                self.assertEqual({c["id"] for c in other["curves"]["curves"]}, {"output_norm_ln"})
                curve = next(c for c in own["curves"]["curves"] if c["id"] == "output_norm_ln")
                self.assertEqual(
                    curve["points"][1]["threshold"], other["curves"]["curves"][0]["points"][1]["threshold"]
                )
            # Scored once, for its own thresholds and under the other's.
            reused = self.service.json("show", by_echo["job"])["provenance"]["reused"]
            self.assertEqual([(r["job"], r["stage"]) for r in reused], [(winogrande["job"], "score")])
        self.assertIn("thresholds of", self.service.cli("table", job))
        self.assertEqual(self.service.refused("curves", job).error["reason"], "MADE_OF_JOBS")
        self.assertEqual(self.service.refused("table", f"{job}-1").error["reason"], "WRONG_KIND")

    def test_thresholds_come_from_another_task_or_job(self) -> None:
        sweep = ("sweep", "--model=tiny", "--task=winogrande", "--scores=output_norm_ln", "--fractions=.2")
        job = self.service.submit(*sweep, "--calibrate-on=everyday", "--limit=4")
        self.service.finish(job)
        side = self.service.json("table", job)["sides"][0]
        self.assertEqual(side["calibrated_on"], "everyday")
        again = self.service.submit(*sweep, f"--calibrate-on-job={job}-1")
        self.service.finish(again)
        curves = self.service.json("curves", again)
        self.assertFalse(curves.get("in_sample", False))
        point = curves["curves"][0]["points"][1]
        self.assertEqual(point["threshold"], side["curves"]["curves"][0]["points"][1]["threshold"])
        pooled = self.service.json("thresholds", f"{job}-1", "--score=output_norm_ln", "--fraction=.2")
        self.assertAlmostEqual(point["threshold"], pooled["tables"][0]["points"][0]["value"], places=6)
        refused = self.service.refused("submit", *sweep, f"--calibrate-on-job={job}")
        self.assertIn("made of other jobs", refused.error["message"])

    def test_a_sweep_continues_prompts_and_judges_what_was_written(self) -> None:
        sweep = ("sweep", "--model=tiny", "--task=echo", "--scores=output_norm_ln,random", "--fractions=.2,.4")
        job = self.service.submit(*sweep)
        self.service.finish(job)
        baseline = self.service.lines("samples", job, "--rule=-1", "--limit=0")
        self.assertEqual([r["sample"] for r in baseline], [f"echo/{i}/0" for i in range(10)])
        for record in baseline:
            self.assertNotRegex(record["text"], "[\\ne]")
            self.assertEqual(record["gold_text"], "?")
            self.assertLessEqual(len(record["generated_tokens"]), 12)
            self.assertEqual(record["share_zeroed"], 0)
        self.assertEqual(self.service.json("curves", job)["baseline"]["accuracy"], 0)
        # The same questions with what the model wrote as their answers: now all are right, until heads are zeroed.
        self.ask(*(r["text"] for r in baseline))
        job = self.service.submit(*sweep)
        self.service.finish(job)
        curves = self.service.json("curves", job)
        self.assertEqual(curves["metric"], "exact_match,none")
        self.assertEqual(curves["baseline"]["accuracy"], 1)
        self.assertEqual({c["id"] for c in curves["curves"]}, {"output_norm_ln", "random"})
        records = self.service.lines("samples", job, "--limit=0")
        self.assertEqual(len(records), 50)
        for record in records:
            same = record["text"] == record["gold_text"]
            self.assertEqual([a["correct"] for a in record["answers"]], [same])
        for curve in curves["curves"]:
            for point in curve["points"][1:]:
                rows = [r for r in records if r["rule"] == point["rule"]]
                self.assertAlmostEqual(point["accuracy"], sum(r["text"] == r["gold_text"] for r in rows) / 10)
                self.assertAlmostEqual(point["share_zeroed"], sum(r["share_zeroed"] for r in rows) / 10)
        out = self.service.folder / "echo"
        self.service.cli("download", job, "-o", str(out))
        check = subprocess.run(
            [python_with_arrow(), REFERENCE, out / "samples.parquet", out / "curves.parquet"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(check.returncode, 0, check.stdout + check.stderr)
        self.assertIn("exact_match,none", self.service.cli("samples", job, "--limit=2"))

    def test_gsm8k_has_two_metrics(self) -> None:
        args = ("--model=tiny", "--task=gsm8k", "--num-fewshot=1", "--limit=3", "--max-new-tokens=5")
        job = self.service.submit("ablate", *args, "--rule=output_norm_ln<0.8", "--mask-update=prompt-once")
        self.service.finish(job)
        strict, flexible = re.compile(r"#### (\-?[0-9\.\,]+)"), re.compile(r"(-?[$0-9.,]{2,})|(-?[0-9]+)")
        for record in self.service.lines("samples", job, "--limit=0"):
            self.assertEqual(
                [a["metric"] for a in record["answers"]], ["exact_match,strict-match", "exact_match,flexible-extract"]
            )
            first, last = strict.findall(record["text"]), flexible.findall(record["text"])
            self.assertEqual(record["answers"][0]["text"], first[0].strip() if first else "[invalid]")
            self.assertEqual(record["answers"][1]["text"], next(m for m in last[-1] if m) if last else "[invalid]")
            self.assertLessEqual(len(record["generated_tokens"]), 5)
        self.assertEqual(self.service.json("curves", job)["metric"], "exact_match,strict-match")
        other = self.service.json("curves", job, "--metric=exact_match,flexible-extract")
        self.assertEqual(other["curves"][0]["metric"], "exact_match,flexible-extract")
        self.assertIn("strict-match", self.service.refused("curves", job, "--metric=acc").error["message"])
        # A score job reads the prompts alone.
        scores = self.service.submit("score", *args)
        self.service.finish(scores)
        record = self.service.lines("samples", scores, "--limit=1")[0]
        self.assertEqual(record["text"], "")
        self.assertEqual(self.service.json("curves", scores)["baseline"]["accuracy"], "NaN")

    def test_what_a_generating_job_refuses(self) -> None:
        rule = ("submit", "ablate", "--model=tiny", "--rule=entropy<1", "--limit=1")
        cases = [
            ((*rule, "--task=gsm8k", "--max-new-tokens=257"), "max_new_tokens: must be 0 to 256"),
            ((*rule, "--task=winogrande", "--max-new-tokens=9"), "task winogrande generates nothing"),
            ((*rule, "--task=winogrande", "--mask-update=every-step"), "mask_update: must be unset"),
        ]
        for args, says in cases:
            self.assertIn(says, self.service.refused(*args).error["message"])
        # Only the prepare stage sees how long a prompt is.
        system = "--system=" + 200 * "x"
        job = self.service.submit("score", "--model=tiny", "--task=gsm8k", "--limit=1", system)
        self.service.cli_any("watch", job, "--quiet")
        error = self.service.json("show", job)["error"]["message"]
        self.assertRegex(error, r"sample gsm8k/0/0: prompt has \d+ tokens and may get 256 new ones .* holds 512")

    def test_generation_is_cancelled_between_steps(self) -> None:
        job = self.service.submit(
            "ablate", "--model=tiny", "--task=gsm8k", "--num-fewshot=0", *(f"--rule=entropy<{i}" for i in range(40))
        )
        wait_for("the job to generate", lambda: self.service.json("show", job)["progress"]["stage"] == "ablate")
        self.service.cli("cancel", job)
        wait_for("the end", lambda: self.service.json("show", job)["state"] == "CANCELLED", deadline=20)


if __name__ == "__main__":
    unittest.main()
