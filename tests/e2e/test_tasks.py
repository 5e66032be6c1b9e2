"""Shipped tasks from data files to results, on a tiny random model and rows written here in the data sets' form."""

from __future__ import annotations

import json
import math
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


# The same rows in two forms.
COLOURS = """task: colours_{format}
output_type: multiple_choice
test_split: test
doc_to_text: "{{{{q}}}}"
doc_to_choice: "{{{{choices.text}}}}"
doc_to_target: answer
headcount: {{data: colours, format: {format}, splits: {{test: rows.{format}}}}}
"""
PROSE = """task: prose
output_type: loglikelihood_rolling
test_split: test
doc_to_target: text
headcount: {data: prose, format: text, splits: {test: prose.txt}}
"""
TEXTS = ["A short text\nof two lines.", "And another, with five words."]
NEXT = """task: next
output_type: loglikelihood
test_split: test
doc_to_text: "{{q}}"
doc_to_target: " {{a}}"
headcount: {data: next, splits: {test: rows.jsonl}}
"""
TO_PARQUET = """import sys, pyarrow, pyarrow.json, pyarrow.parquet
pyarrow.parquet.write_table(pyarrow.json.read_json(sys.argv[1]), sys.argv[2], row_group_size=2)
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
        colours = [
            {
                "q": f"Grass in picture {i} is",
                "choices": {"text": ["green", "blue", "red"][: 2 + i % 2]},
                "answer": i % 2,
            }
            for i in range(5)
        ]
        write_rows(rows / "colours" / "rows.jsonl", colours)
        files = [str(rows / "colours" / f"rows.{form}") for form in ("jsonl", "parquet")]
        subprocess.run([python_with_arrow(), "-c", TO_PARQUET, *files], check=True)
        (rows / "tasks").mkdir()
        for form in ("jsonl", "parquet"):
            (rows / "tasks" / f"colours_{form}.yaml").write_text(COLOURS.format(format=form))
        write_rows(rows / "next" / "rows.jsonl", [{"q": f"Number {i}:", "a": "x"} for i in range(10)])
        (rows / "prose").mkdir()
        (rows / "prose" / "prose.txt").write_text("\n\n\n".join(TEXTS))
        for name, task in (("echo", ECHO), ("prose", PROSE), ("next", NEXT)):
            (rows / "tasks" / f"{name}.yaml").write_text(task)
        cls.context = service(
            data={name: rows / name for name in ("winogrande", "echo", "gsm8k", "colours", "prose", "next")},
            task_dirs=[str(rows / "tasks")],
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

    def inline(self, requests: list[dict[str, Any]], *flags: str) -> list[dict[str, Any]]:
        """Records of the baseline of a job over these requests."""
        path = self.service.folder / "inline.jsonl"
        path.write_text("".join(json.dumps(request) + "\n" for request in requests))
        job = self.service.submit("ablate", f"--requests={path}", "--rule=heads=0.0", *flags)
        self.service.finish(job)
        return self.service.lines("samples", job, "--rule=-1", "--limit=0")

    def test_perplexity_of_plain_text(self) -> None:
        job = self.service.submit("ablate", "--model=tiny-qwen2", "--task=prose", "--rule=heads=0.0,1.2")
        self.service.finish(job)
        curves = self.service.json("curves", job)
        # The same texts after the token that the tokenizer calls BOS.
        records = self.inline(
            [{"context": "<", "choices": [text, "other"], "gold": 0} for text in TEXTS], "--model=tiny-qwen2"
        )
        total = sum(r["log_likelihoods"][0] for r in records[::2])
        self.assertEqual(curves["metric"], "word_perplexity")
        words = sum(len(text.split()) for text in TEXTS)
        self.assertAlmostEqual(math.log(curves["baseline"]["perplexity"]), -total / words, places=5)
        size = sum(len(text.encode()) for text in TEXTS)
        bits = self.service.json("curves", job, "--metric=bits_per_byte")["baseline"]["perplexity"]
        self.assertAlmostEqual(bits, -total / size / math.log(2), places=5)
        self.assertTrue(math.isnan(float(curves["baseline"]["accuracy"])))
        self.assertNotEqual(curves["curves"][0]["points"][1]["gold_log_likelihood_change"], 0)
        self.assertIn("word_perplexity", self.service.cli("curves", job))
        online = self.service.refused("submit", "ablate", "--model=tiny-qwen2", "--task=prose", "--rule=entropy<1")
        self.assertEqual((online.code, online.error["reason"]), (3, "ONLINE_RULE"))

    def test_a_continuation_is_right_where_the_model_would_write_it(self) -> None:
        job = self.service.submit("ablate", "--model=tiny", "--task=next", "--rule=heads=0.0")
        self.service.finish(job)
        records = self.service.lines("samples", job, "--rule=-1", "--limit=0")
        other = self.inline(
            [{"context": f"Number {i}:", "choices": [" x", " y"], "gold": 0} for i in range(10)], "--model=tiny"
        )
        for mine, theirs in zip(records, other, strict=True):
            self.assertAlmostEqual(mine["log_likelihoods"][0], theirs["log_likelihoods"][0], places=5)
            self.assertEqual(mine.get("correct", False), mine["greedy"][0])
        mean = sum(r["log_likelihoods"][0] for r in records) / 10
        self.assertAlmostEqual(math.log(self.service.json("curves", job)["baseline"]["perplexity"]), -mean, places=5)
        accuracy = self.service.json("curves", job, "--metric=acc")["baseline"]["accuracy"]
        self.assertAlmostEqual(accuracy, sum(r["greedy"][0] for r in records) / 10)

    def test_rows_may_lie_in_parquet(self) -> None:
        results = []
        for form in ("jsonl", "parquet"):
            job = self.service.submit("ablate", "--model=tiny", f"--task=colours_{form}", "--rule=heads=0.0")
            self.service.finish(job)
            results.append([(r["log_likelihoods"], r["gold"]) for r in self.service.lines("samples", job, "--limit=0")])
        self.assertEqual(len(results[0]), 2 * (3 * 2 + 2 * 3))
        self.assertEqual(results[0], results[1])
        tasks = {task["task"]: task for task in self.service.json("tasks")["tasks"]}
        self.assertEqual(tasks["colours_parquet"]["documents"], "5")

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
        short = job.rsplit("/", 1)[1]
        self.assertIn(f"{short}-1 to {short}-8", self.service.refused("rerun", job).error["message"])

    def test_the_papers_grid(self) -> None:
        job = self.service.json("submit", "paper", "--model=tiny", "--task=winogrande", "--limit=1", "--validate-only")
        self.assertEqual(len(job["sweep"]["scores"]), 16)
        self.assertEqual(job["sweep"]["tasks"], [])
        # The four tasks, of which two have no data here.
        refused = self.service.refused("submit", "paper", "--model=tiny")
        self.assertIn("mmlu", refused.error["message"])

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
