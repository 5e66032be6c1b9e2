"""Job kinds beyond sweeps, on a tiny random model: frontier, knockout; and what compares score jobs."""

from __future__ import annotations

import math
import unittest

from harness import Service, service

WORKLOAD = ("--model=tiny", "--task=everyday")


class KindsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.context = service()
        cls.service: Service = cls.context.__enter__()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.context.__exit__(None, None, None)

    def finished(self, *job: str) -> str:
        name = self.service.submit(*job)
        self.service.finish(name)
        return name

    def test_frontier_ends_with_an_answer_from_part_of_the_grid(self) -> None:
        job = self.finished(
            "frontier", *WORKLOAD, "--limit=60", "--scores=output_norm_ln,random", "--fractions=.1,.2,.9", "--margin=40"
        )
        frontier = self.service.json("frontier", job)
        self.assertTrue(frontier["complete"])
        self.assertEqual(int(frontier["documents"]), 60)
        for score in frontier["scores"]:
            verdicts = [share.get("verdict", "UNTESTED") for share in score["shares"]]
            self.assertNotIn("OPEN", verdicts)
            # Ascending: what is not certified ends it, what comes after is not tested.
            decided = [v for v in verdicts if v != "UNTESTED"]
            self.assertTrue(all(v == "CERTIFIED" for v in decided[:-1]), verdicts)
            self.assertLess(int(score["documents_spent"]), int(score["documents_of_full_grid"]))
            for share in score["shares"]:
                if share.get("verdict") == "CERTIFIED":
                    self.assertGreater(share["difference"], -0.4)
        self.assertIn("documents of the full grid", self.service.cli("frontier", job))
        # The same rows by the other ways.
        rule = frontier["scores"][0]["shares"][0]
        lines = self.service.lines("samples", job, "--rule=0", "--limit=0")
        self.assertEqual(len({line["document"] for line in lines}), int(rule["documents"]))
        self.assertIn("output_norm_ln", self.service.cli("curves", job))
        self.assertEqual(self.service.refused("knockout", job).error["reason"], "WRONG_KIND")

    def test_knockout_maps_heads_and_judges_scores(self) -> None:
        scores = self.finished("score", *WORKLOAD, "--limit=20")
        job = self.finished("knockout", *WORKLOAD, "--limit=20", "--layers=0,2", f"--score-job={scores}")
        knockout = self.service.json("knockout", job)
        self.assertEqual((knockout["layers"], knockout["heads"], knockout["kv_heads"]), (3, 4, 2))
        changes = [float(x) for x in knockout["change"]]
        self.assertEqual([math.isnan(x) for x in changes], [False] * 4 + [True] * 4 + [False] * 4)
        self.assertTrue(any(x != 0 for x in changes[:4]))
        self.assertEqual(len(knockout["agreements"]), 15)
        # A head's rule is the same as in an ablate job.
        ablate = self.finished("ablate", *WORKLOAD, "--limit=20", "--rule=heads=2.1")
        point = self.service.json("curves", ablate)["curves"][0]["points"][-1]
        self.assertAlmostEqual(changes[9], point["gold_log_likelihood_change"], places=5)
        text = self.service.cli("knockout", job)
        self.assertIn("AUROC", text)
        self.assertIn("harmful", text)

    def test_scores_are_compared(self) -> None:
        first = self.finished("score", *WORKLOAD, "--limit=20")
        second = self.finished("score", *WORKLOAD, "--limit=20", "--chat=multi-turn")
        same = self.service.json("compare", first, first, "--scores=entropy")
        self.assertTrue(same["same_inputs"])
        self.assertEqual(max(same["scores"][0]["wasserstein"]), 0)
        other = self.service.json("compare", first, second, "--scores=entropy,output_norm_ln")
        self.assertFalse(other.get("same_inputs", False))
        self.assertEqual(len(other["scores"]), 2)
        self.assertGreater(max(other["scores"][0]["kolmogorov_smirnov"]), 0)
        self.assertTrue(any("different token ids" in warning for warning in other["warnings"]))
        self.assertIn("Wasserstein-1", self.service.cli("compare", first, second))

    def test_compare_is_a_job_of_score_jobs(self) -> None:
        job = self.finished(
            "compare", *WORKLOAD, "--limit=10", "--with-model=tiny", "--scores=entropy", "--chat=single-turn"
        )
        answer = self.service.json("compare", job)
        self.assertTrue(answer["complete"])
        self.assertEqual(len(answer["comparisons"]), 1)
        self.assertTrue(answer["comparisons"][0]["same_inputs"])
        self.assertEqual(max(answer["comparisons"][0]["scores"][0]["wasserstein"]), 0)
        self.assertEqual(self.service.json("show", f"{job}-2")["parent"], job)
        self.assertIn("tiny everyday against tiny everyday", self.service.cli("compare", job))

    def test_inactivity_is_split(self) -> None:
        job = self.finished("score", *WORKLOAD, "--limit=20")
        answer = self.service.json("inactivity", job, "--fraction=.2")
        self.assertAlmostEqual(sum(answer["share"]) / 12, 0.2, delta=0.02)
        self.assertAlmostEqual(sum(answer["variance"].values()), 1, places=9)
        self.assertIn("between layers", self.service.cli("inactivity", job, "--subtasks"))

    def test_the_paper(self) -> None:
        self.assertEqual(len(self.service.json("paper")["models"]), 14)
        self.assertIn("int8", self.service.cli("paper", "OLMo-2-1124-7B"))
        self.assertEqual(self.service.refused("paper", "tiny").error["reason"], "MODEL_NOT_PUBLISHED")


if __name__ == "__main__":
    unittest.main()
