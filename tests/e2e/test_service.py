"""The whole service on a tiny random model: kinds of job, results, idempotency, steering, refusals, downloads."""

from __future__ import annotations

import json
import subprocess
import sys
import unittest
import urllib.request
from pathlib import Path

from harness import ROOT, Service, service, wait_for

REFERENCE = ROOT / "tests" / "server" / "results" / "reference_curves.py"


class ServiceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.context = service()
        cls.service: Service = cls.context.__enter__()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.context.__exit__(None, None, None)

    def test_catalogue(self) -> None:
        models = self.service.json("models")["models"]
        self.assertEqual([m["name"] for m in models], ["tiny", "tiny-qwen2"])
        self.assertEqual((models[0]["layers"], models[0]["heads"], models[0]["kv_heads"]), (3, 4, 2))
        self.assertEqual(len(self.service.json("scores")["scores"]), 16)
        tasks = {t["task"]: t for t in self.service.json("tasks")["tasks"]}
        self.assertEqual(tasks["everyday"]["problem"], "")
        self.assertIn("mmlu", tasks["mmlu"]["problem"])  # no folder is configured here: it says which key to set

    def test_a_job_is_prepared_while_the_device_works_on_another(self) -> None:
        scores = "--scores=output_norm_ln,entropy,last_output_norm_hn"
        first = self.service.submit("sweep", "--model=tiny", "--task=everyday", "--limit=150", scores)
        wait_for("the sweep to ablate", lambda: self.service.json("show", first)["progress"]["stage"] == "ablate")
        # In another form, so that no manifest is there yet.
        second = self.service.submit("score", "--model=tiny", "--task=everyday", "--limit=3", "--chat=multi-turn")
        wait_for(
            "the second job's manifest",
            lambda: self.service.json("show", second).get("provenance", {}).get("manifest_digest"),
        )
        self.assertEqual(self.service.json("show", first)["state"], "RUNNING")
        self.service.finish(first)
        self.service.finish(second)

    def test_sweep_has_curves_that_follow_from_its_samples(self) -> None:
        request = "--request-id=11111111-1111-4111-8111-111111111111"
        sweep = (
            "sweep",
            "--model=tiny",
            "--task=everyday",
            "--limit=12",
            "--scores=output_norm_ln,first_token_weight,random",
            "--fractions=.1,.3",
            request,
        )
        job = self.service.submit(*sweep)
        self.service.finish(job)
        curves = self.service.json("curves", job)
        self.assertTrue(curves["complete"])
        self.assertEqual({c["id"] for c in curves["curves"]}, {"output_norm_ln", "first_token_weight", "random"})
        self.assertEqual(curves["baseline"]["documents"], "12")
        out = self.service.folder / "download"
        self.service.cli("download", job, "-o", str(out))
        names = {p.name for p in out.iterdir()}
        self.assertEqual(names, {"scores.output_norm_ln.npy", "samples.parquet", "curves.parquet", "job.json"})
        check = subprocess.run(
            [python_with_arrow(), REFERENCE, out / "samples.parquet", out / "curves.parquet"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(check.returncode, 0, check.stdout + check.stderr)
        self.assertIn("output_norm_ln", self.service.cli("curves", job))
        self.assertIn("layer", self.service.cli("heads", job, "--fraction=.15"))
        self.assertEqual(len(self.service.lines("samples", job, "--rule=-1", "--limit=0")), 24)

        self.assertEqual(self.service.submit(*sweep), job)
        other = self.service.refused(
            "submit",
            "sweep",
            "--model=tiny",
            "--task=everyday",
            "--limit=13",
            "--scores=random",
            request,
        )
        self.assertEqual((other.error["code"], other.error["reason"]), ("ALREADY_EXISTS", "REQUEST_ID_REUSED"))

    def test_what_was_computed_before_is_not_computed_again(self) -> None:
        sweep = ("sweep", "--model=tiny", "--task=everyday", "--limit=10", "--fractions=.2", "--scores=entropy,random")
        first = self.service.submit(*sweep)
        self.service.finish(first)
        again = self.service.submit(*sweep)
        self.service.finish(again)
        shown = self.service.json("show", again)
        self.assertEqual(shown["attempt"], 0)  # no worker had a lease
        self.assertEqual(shown["progress"]["reused_units"], shown["progress"]["total_units"])
        self.assertEqual({Path(r["job"]).name for r in shown["provenance"]["reused"]}, {Path(first).name})
        points = [self.service.json("curves", job)["curves"] for job in (first, again)]
        self.assertEqual(points[0], points[1])
        fresh = self.service.submit(*sweep, "--fresh")
        self.service.finish(fresh)
        self.assertEqual(self.service.json("show", fresh)["progress"]["reused_units"], "0")

    def test_thresholds_go_both_ways(self) -> None:
        job = self.service.submit("score", "--model=tiny", "--task=everyday", "--limit=5")
        self.service.finish(job)
        there = self.service.json("thresholds", job, "--score=entropy", "--fraction=0.25")["tables"][0]
        value = there["points"][0]["value"]
        back = self.service.json("thresholds", job, "--score=Entropy", f"--value={value!r}")["tables"][0]
        self.assertEqual(there["pooled"], str(10 * 3 * 4))
        self.assertAlmostEqual(back["points"][0]["fraction"], 0.25, delta=1.5 / (10 * 3 * 4))

    def test_ablate_takes_every_kind_of_rule(self) -> None:
        scores = self.service.submit("score", "--model=tiny", "--task=everyday", "--limit=4")
        self.service.finish(scores)
        job = self.service.submit(
            "ablate",
            "--model=tiny",
            "--task=everyday",
            "--limit=4",
            f"--score-job={scores}",
            "--rule=output_norm<1e9",
            "--rule=output_norm_ln@0.2",
            "--rule=entropy:top=1",
            "--rule=heads=0.1,2.3",
            "--rule=random=0.5,seed=7",
            "--exclude-layers=1",
        )
        self.service.finish(job)
        records = self.service.lines("samples", job, "--limit=0")
        shares = {}
        for record in records:
            shares.setdefault(record["rule"], []).append(record["share_zeroed"])
        self.assertEqual(sorted(shares), [-1, 0, 1, 2, 3, 4])
        self.assertTrue(all(s == 0 for s in shares[-1]))
        self.assertTrue(all(abs(s - 8 / 12) < 1e-9 for s in shares[0]))  # all heads of the two layers that are left
        self.assertTrue(all(abs(s - 2 / 12) < 1e-9 for s in shares[2]))
        self.assertTrue(all(abs(s - 2 / 12) < 1e-9 for s in shares[3]))

    def test_own_questions(self) -> None:
        file = self.service.folder / "questions.jsonl"
        rows = [{"context": f"{i} and one make", "choices": [f" {i + 1}", f" {i + 2}"], "gold": 0} for i in range(5)]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        job = self.service.submit(
            "sweep", "--model=tiny", f"--requests={file}", "--scores=value_norm", "--fractions=.2"
        )
        self.service.finish(job)
        self.assertEqual(self.service.json("curves", job)["baseline"]["documents"], "5")

    def test_cancel_and_delete(self) -> None:
        job = self.service.submit(
            "sweep", "--model=tiny", "--task=everyday", "--limit=200", "--scores=all", "--priority=-1"
        )
        self.service.cli("cancel", job)
        wait_for("CANCELLED", lambda: self.service.json("show", job)["state"] == "CANCELLED")
        self.service.cli("delete", job)
        self.assertEqual(self.service.refused("show", job).error["code"], "NOT_FOUND")

    def test_pause_and_resume(self) -> None:
        job = self.service.submit("sweep", "--model=tiny", "--task=everyday", "--limit=40", "--scores=entropy")
        self.service.cli("pause", job)
        wait_for("PAUSED", lambda: self.service.json("show", job)["state"] == "PAUSED")
        self.service.cli("resume", job)
        self.service.finish(job)

    def test_metrics_hold_no_names_of_jobs(self) -> None:
        job = self.service.submit("score", "--model=tiny", "--task=everyday", "--limit=1")
        self.service.finish(job)
        with urllib.request.urlopen(f"http://{self.service.ports['metrics_listen']}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        self.assertIn("headcount_jobs_submitted_total", text)
        self.assertIn("headcount_build_info", text)
        self.assertNotIn(job.rsplit("/", 1)[1], text)

    def test_prompt_that_does_not_fit_fails_in_prepare_and_names_it(self) -> None:
        file = self.service.folder / "long.jsonl"
        file.write_text(json.dumps({"context": "a" * 2000, "choices": [" b", " c"], "gold": 0}) + "\n")
        job = self.service.submit("sweep", "--model=tiny", f"--requests={file}", "--scores=entropy")
        wait_for("FAILED", lambda: self.service.json("show", job)["state"] == "FAILED")
        error = self.service.json("show", job)["error"]["message"]
        self.assertIn("512", error)
        self.assertIn("2001", error)


class RefusalTest(unittest.TestCase):
    """Each is refused when the job is created, names the field and the limit, and stores nothing."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.context = service()
        cls.service: Service = cls.context.__enter__()
        models = cls.service.folder / "models"
        tiny = models / "tiny"
        config = json.loads((tiny / "config.json").read_text())
        weights = (tiny / "model.safetensors").read_bytes()

        def variant(
            name: str, settings: dict[str, object], blob: bytes | None, file: str = "model.safetensors"
        ) -> None:
            folder = models / name
            folder.mkdir()
            changed = {k: v for k, v in (config | settings).items() if v is not None}
            (folder / "config.json").write_text(json.dumps(changed))
            for extra in ("tokenizer.json", "tokenizer_config.json"):
                (folder / extra).write_bytes((tiny / extra).read_bytes())
            if blob is not None:
                (folder / file).write_bytes(blob)

        variant("indivisible", {"head_dim": None, "hidden_size": 66}, weights)
        variant("unknown-type", {"model_type": "mamba"}, weights)
        variant("truncated", {}, weights[:5000])
        variant("lying", {}, (len(weights) * 4).to_bytes(8, "little") + weights[8:])
        variant("pickled", {}, b"PK\x03\x04", "pytorch_model.bin")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.context.__exit__(None, None, None)

    def test_refusals(self) -> None:
        sweep = ("submit", "sweep", "--task=everyday", "--limit=2")
        ablate = ("submit", "ablate", "--model=tiny", "--task=everyday")
        many = [f"--rule=heads=0.{i % 4}" for i in range(6001)]
        cases: list[tuple[tuple[str, ...], str, str]] = [
            ((*sweep, "--model=absent", "--scores=entropy"), "NOT_FOUND", "absent"),
            ((*sweep, "--model=../etc", "--scores=entropy"), "INVALID_ARGUMENT", "model"),
            ((*sweep, "--model=tiny", "--scores=entropie"), "INVALID_ARGUMENT", "entropie"),
            (("submit", "sweep", "--model=tiny", "--task=nosuch", "--scores=entropy"), "NOT_FOUND", "nosuch"),
            ((*sweep, "--model=tiny", "--scores=entropy", "--fractions=1.5"), "INVALID_ARGUMENT", "1.5"),
            ((*sweep, "--model=tiny", "--scores=entropy", "--fractions=-0.1"), "INVALID_ARGUMENT", "-0.1"),
            (
                ("submit", "sweep", "--model=tiny", "--task=everyday", "--scores=entropy", "--limit=-3"),
                "INVALID_ARGUMENT",
                "limit",
            ),
            ((*ablate, "--rule=entropy<nan"), "INVALID_ARGUMENT", "nan"),
            ((*ablate, "--rule=random=1.2"), "INVALID_ARGUMENT", "1.2"),
            ((*ablate, "--rule=heads=9.0"), "OUT_OF_RANGE", "9"),
            ((*ablate, *many), "INVALID_ARGUMENT", "6,?000"),
            ((*sweep, "--model=indivisible", "--scores=entropy"), "FAILED_PRECONDITION", "66"),
            ((*sweep, "--model=unknown-type", "--scores=entropy"), "FAILED_PRECONDITION", "mamba"),
            ((*sweep, "--model=truncated", "--scores=entropy"), "FAILED_PRECONDITION", "truncated"),
            ((*sweep, "--model=lying", "--scores=entropy"), "FAILED_PRECONDITION", "header"),
            ((*sweep, "--model=pickled", "--scores=entropy"), "FAILED_PRECONDITION", "safetensors"),
        ]
        before = self.service.lines("jobs")
        for args, code, mentions in cases:
            with self.subTest(args=" ".join(args[:6])):
                error = self.service.refused(*args).error
                self.assertEqual(error["code"], code, error)
                self.assertRegex(error["message"], mentions)
        self.assertEqual(self.service.lines("jobs"), before)
        # Nobody crashed: a good job still runs.
        self.service.finish(self.service.submit("score", "--model=tiny", "--task=everyday", "--limit=2"))


def python_with_arrow() -> str:
    """The Python of the pinned tools, which has numpy and pyarrow."""
    prefix = subprocess.run(
        [ROOT / "deploy" / "setup.sh", "--print-prefix"], capture_output=True, text=True, check=True
    )
    python = Path(prefix.stdout.strip()) / "venv" / "bin" / "python"
    return str(python) if python.exists() else sys.executable


if __name__ == "__main__":
    unittest.main()
