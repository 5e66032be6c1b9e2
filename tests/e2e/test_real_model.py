"""PIQA and MMLU on real models through server, worker and client; curves are recomputed from downloaded samples.

Skipped, loudly, without the shared data folder or the demo model. With HEADCOUNT_FULL=1 the long versions run.
"""

from __future__ import annotations

import subprocess
import unittest

from harness import FULL, QWEN, SHARED, SMOLLM2, Service, service
from test_service import REFERENCE, python_with_arrow

HOUR = 3600.0


@unittest.skipUnless((SHARED / "data" / "piqa").is_dir(), f"no data sets at {SHARED}/data (HEADCOUNT_SHARED)")
@unittest.skipUnless(SMOLLM2.is_dir(), f"no demo model at {SMOLLM2} (deploy/demo_model.py)")
class RealModelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        data = {name: SHARED / "data" / name for name in ("mmlu", "piqa")}
        cls.context = service([SMOLLM2.parent], data)
        cls.service: Service = cls.context.__enter__()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.context.__exit__(None, None, None)

    def run_and_check(self, *args: str, documents: int, curves: int) -> None:
        job = self.service.submit("sweep", *args)
        self.service.finish(job, deadline=2 * HOUR if FULL else 600)
        answer = self.service.json("curves", job)
        self.assertTrue(answer["complete"])
        self.assertEqual(int(answer["documents"]), documents)
        self.assertEqual(len(answer["curves"]), curves)
        out = self.service.folder / job.rsplit("/", 1)[1]
        self.service.cli("download", job, "-o", str(out))
        check = subprocess.run(
            [python_with_arrow(), REFERENCE, out / "samples.parquet", out / "curves.parquet"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(check.returncode, 0, check.stdout + check.stderr)

    def test_piqa(self) -> None:
        limit, scores = ("40", "all") if FULL else ("6", "output_norm_ln,first_token_weight,entropy")
        self.run_and_check(
            "--model=SmolLM2-135M-Instruct",
            "--task=piqa",
            f"--limit={limit}",
            f"--scores={scores}",
            documents=int(limit),
            curves=16 if FULL else 3,
        )

    def test_mmlu(self) -> None:
        if FULL:
            self.assertTrue(QWEN.is_dir(), f"no model at {QWEN}: deploy/demo_model.py --model qwen2.5-coder-0.5b")
            self.run_and_check(
                "--model=Qwen2.5-Coder-0.5B-Instruct",
                "--task=mmlu",
                "--subtask=high_school_geography,astronomy",
                "--limit=4",
                "--num-fewshot=5",
                "--scores=output_norm_ln,first_token_weight",
                documents=8,
                curves=2,
            )
        else:
            self.run_and_check(
                "--model=SmolLM2-135M-Instruct",
                "--task=mmlu",
                "--subtask=high_school_geography,astronomy",
                "--limit=2",
                "--num-fewshot=0",
                "--scores=output_norm_ln",
                documents=4,
                curves=1,
            )


if __name__ == "__main__":
    unittest.main()
