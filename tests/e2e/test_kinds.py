"""Job kinds beyond sweeps, on a tiny random model: frontier, knockout, probe; and what compares score jobs."""

from __future__ import annotations

import base64
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

    def test_a_probe_shows_prompts_closely(self) -> None:
        job = self.finished(
            "probe",
            "--model=tiny",
            "--prompt=One two three four",
            "--prompt=Five six",
            "--rule=output_norm_ln<.9",
            "--rule=heads=0.1,1.0",
            "--next-tokens=3",
        )
        probe = self.service.json("probe", job, "--layers=0,2")
        self.assertEqual((probe["layers"], probe["heads"], probe["kv_heads"]), (3, 4, 2))
        self.assertEqual((probe["tokens"], probe["samples"]), ([ord(c) for c in "One two three four"], "2"))
        self.assertEqual("".join(probe["token_texts"]), "One two three four")
        baseline, threshold, fixed = probe["runs"]
        self.assertEqual(baseline["label"], "baseline")
        self.assertEqual((baseline["divergence"], baseline["share_zeroed"]), (0, 0))
        self.assertGreater(threshold["divergence"], 0)
        self.assertAlmostEqual(fixed["share_zeroed"], 2 / 12)
        self.assertEqual([len(run["next_tokens"]) for run in probe["runs"]], [3, 3, 3])
        # A rule acts where its score says so, on scores that are those of its own run.
        norms = next(s["values"] for s in threshold["scores"] if s["score"] == "output_norm_ln")
        mask = int.from_bytes(base64.b64decode(threshold["mask"]), "little")
        self.assertEqual([mask >> h & 1 for h in range(12)], [int(x < 0.9) for x in norms])
        # first_token_weight is the mean over positions of what the layers show.
        weights = next(s["values"] for s in baseline["scores"] if s["score"] == "first_token_weight")
        length = len(probe["tokens"])
        self.assertEqual(len(probe["first_weights"]), 2 * 4 * length)
        for place, head in enumerate([0, 1, 2, 3, 8, 9, 10, 11]):
            mean = sum(probe["first_weights"][place * length : (place + 1) * length]) / length
            self.assertAlmostEqual(mean, weights[head], places=5)
        second = self.service.json("probe", job, "--sample=1")
        self.assertEqual("".join(second["token_texts"]), "Five six")
        text = self.service.cli("probe", job, "--tokens", "--scores=output_norm_ln")
        self.assertIn("attention of each position to the first token", text)
        self.assertIn("x: zeroed by the rule", text)
        self.assertEqual(self.service.refused("probe", job, "--sample=2").error["field"], "sample")
        self.assertEqual(self.service.refused("curves", job).error["reason"], "NO_CURVES")

    def test_a_rerun_says_what_differs(self) -> None:
        job = self.finished("ablate", *WORKLOAD, "--limit=3", "--rule=output_norm_ln<.9", "--rule=random=.2")
        same = self.service.lines("rerun", job)[-1]
        self.assertTrue(same["same"], same)
        self.assertEqual(same["provenance"], [])
        self.assertEqual(same["identical_rows"], same["rows"])
        self.assertGreater(same["rows"], 9)
        # Everything was computed anew, nothing taken from the first.
        self.assertFalse(self.service.json("show", same["rerun"])["provenance"].get("reused"))
        other = self.finished("ablate", *WORKLOAD, "--limit=3", "--rule=output_norm_ln<.8", "--rule=random=.2")
        differs = self.service.refused("rerun", job, "--against", other)
        self.assertEqual(differs.code, 8)
        more = self.finished("ablate", *WORKLOAD, "--limit=4", "--rule=output_norm_ln<.9", "--rule=random=.2")
        self.assertEqual(self.service.refused("rerun", job, "--against", more).code, 8)

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
