"""Rules end to end on a tiny random model: every example of docs/rules.md is accepted, and results show the rest."""

from __future__ import annotations

import base64
import re
import shlex
import unittest

from harness import ROOT, Service, service

DOCUMENT = ROOT / "docs" / "rules.md"


class RulesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.context = service()
        cls.service: Service = cls.context.__enter__()
        cls.scores = cls.service.submit("score", "--model=tiny", "--task=everyday", "--limit=4")
        cls.service.finish(cls.scores)
        cls.ablated = cls.service.submit("ablate", "--model=tiny", "--task=everyday", "--limit=4", "--rule=random=.3")
        cls.service.finish(cls.ablated)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.context.__exit__(None, None, None)

    def ablate(self, *args: str) -> list[dict]:
        """All sample records of a finished ablate job."""
        job = self.service.submit("ablate", "--model=tiny", "--task=everyday", "--limit=4", *args)
        self.service.finish(job)
        return self.service.lines("samples", job, "--limit=0")

    def test_every_example_of_the_document(self) -> None:
        blocks = re.findall(r"```console\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
        commands = [line for block in blocks for line in block.splitlines()]
        self.assertGreater(len(commands), 5)
        # The names that the examples use, in terms of what this service has.
        words = {"SmolLM2-135M-Instruct": "tiny", "Qwen2.5-0.5B": "tiny-qwen2", "piqa": "everyday"}
        words |= {"SCORES": self.scores, "ABLATED": self.ablated}
        mask = self.service.folder / "mask.json"
        mask.write_text("[[0, 1, 0, 0], [0, 0, 0, 0], [1, 1, 0, 0]]")
        words["MASK.json"] = str(mask)
        for command in commands:
            with self.subTest(command):
                program, *args = [
                    re.sub("|".join(map(re.escape, words)), lambda found: words[found[0]], word)
                    for word in shlex.split(command)
                ]
                self.assertEqual(program, "headcount")
                self.service.cli(*args, *(["--validate-only"] if args[0] == "submit" else []))

    def masks(self, records: list[dict], rule: int) -> dict[str, set[int]]:
        """The heads (layer * 4 + head) that each sample lost."""
        out = {}
        for record in records:
            if record["rule"] != rule:
                continue
            bits = int.from_bytes(base64.b64decode(record.get("mask", "")), "little")
            out[record["sample"]] = {i for i in range(12) if bits >> i & 1}
        return out

    def test_rules_are_put_together_in_the_pass_that_they_change(self) -> None:
        # In layer 0 all rules see the same run; above it each sees its own.
        records = self.ablate(
            "--rule=low := output_norm:top=2",
            "--rule=sink := first_token_weight:top=2",
            "--rule=low and sink",
            "--rule=low or sink",
            "--rule=low and not sink",
            "--rule=random_in_layer(low),seed=3",
            "--layers=0",
        )
        low, sink, both, either, only, drawn = (self.masks(records, rule) for rule in range(6))
        for sample in low:
            self.assertEqual(both[sample], low[sample] & sink[sample])
            self.assertEqual(either[sample], low[sample] | sink[sample])
            self.assertEqual(only[sample], low[sample] - sink[sample])
            self.assertEqual(len(drawn[sample]), 2)
        self.assertGreater(len({tuple(sorted(heads)) for heads in drawn.values()}), 1)
        named = {"low", "sink", "low and sink", "low or sink", "low and not sink", "random_in_layer(low)"}
        self.assertEqual({r["rule_label"] for r in records}, named | {"baseline"})

    def test_groups_change_as_a_whole(self) -> None:
        records = self.ablate(
            "--rule=output_norm_ln@0.3",
            f"--score-job={self.scores}",
            "--rule=heads=1.1",
            "--rule=entropy:top=1",
            "--rule=random=0.5,seed=1",
            "--unit=kv_group",
        )
        for rule in range(4):
            for heads in self.masks(records, rule).values():
                self.assertEqual({h ^ 1 for h in heads}, heads)  # of two query heads a group
        self.assertTrue(all(heads == {6, 7} for heads in self.masks(records, 1).values()))
        self.assertTrue(all(len(heads) == 6 for heads in self.masks(records, 2).values()))
        answer = self.service.json("thresholds", self.scores, "--score=output_norm", "--value=1e9", "--kv-groups")
        groups = answer["tables"][0]["points"][0]["kv_groups"]
        self.assertEqual(groups["always"]["groups"], 6)
        self.assertIn(groups["all"]["kv_bytes_per_token"], (6 * 2 * 16 * 2, 6 * 2 * 16 * 4))  # by the type

    def test_controls_of_a_finished_job(self) -> None:
        job = self.service.submit(
            "ablate", "--model=tiny", "--task=everyday", "--limit=4", "--rule=entropy:top=1", "--rule=random=.4,seed=2"
        )
        self.service.finish(job)
        source = self.masks(self.service.lines("samples", job, "--limit=0"), 1)
        controls = self.ablate(f"--rule=static_heads({job}:1)", f"--rule=shuffled({job}:1),seed=5")
        static, shuffled = self.masks(controls, 0), self.masks(controls, 1)
        often = [sum(head in heads for heads in source.values()) for head in range(12)]
        kept = next(iter(static.values()))
        self.assertTrue(all(heads == kept for heads in static.values()))
        self.assertEqual(len(kept), int(sum(map(len, source.values())) / len(source) + 0.5))
        self.assertGreaterEqual(min(often[h] for h in kept), max(often[h] for h in range(12) if h not in kept))

        def document(sample: str) -> str:
            return sample.rsplit("/", 1)[0]

        self.assertEqual(sorted(map(sorted, shuffled.values())), sorted(map(sorted, source.values())))
        for sample, heads in shuffled.items():
            donors = {document(other) for other, given in source.items() if given == heads}
            self.assertNotEqual(donors, {document(sample)})

    def test_a_sweep_brings_its_controls(self) -> None:
        job = self.service.submit(
            "sweep",
            "--model=tiny",
            "--task=everyday",
            "--limit=6",
            "--scores=output_norm_ln,random",
            "--fractions=.1,.2,.3",
            "--controls=random_in_layer,shuffled,static_heads",
            "--control-seed=3",
        )
        self.service.finish(job)
        curves = {curve["id"]: curve for curve in self.service.json("curves", job)["curves"]}
        of_score = {f"{name}(output_norm_ln)" for name in ("random_in_layer", "shuffled", "static_heads")}
        self.assertEqual(set(curves), {"output_norm_ln", "random"} | of_score)
        for name in of_score:
            self.assertEqual([p["documents"] for p in curves[name]["points"] if p["rule"] >= 0], ["6"] * 3)
        records = self.service.lines("samples", job, "--limit=0")
        rules = {r["rule_label"]: [] for r in records}
        for rule in sorted({r["rule"] for r in records}):
            rules[next(r["rule_label"] for r in records if r["rule"] == rule)].append(self.masks(records, rule))
        for score, shuffled, static in zip(
            rules["output_norm_ln"],
            rules["shuffled(output_norm_ln)"],
            rules["static_heads(output_norm_ln)"],
            strict=True,
        ):
            self.assertEqual(sorted(map(sorted, shuffled.values())), sorted(map(sorted, score.values())))
            self.assertEqual(len({tuple(sorted(heads)) for heads in static.values()}), 1)

    def test_means_of_a_score_job_take_the_place_of_heads(self) -> None:
        records = self.ablate("--rule=heads=0.0,1.2", f"--intervention=mean={self.scores}")
        rows = [r for r in records if r["rule"] == 0]
        zeroed = [r for r in self.ablate("--rule=heads=0.0,1.2") if r["rule"] == 0]
        self.assertTrue(all(r["finite"] for r in rows))
        self.assertNotEqual([r["log_likelihoods"] for r in rows], [r["log_likelihoods"] for r in zeroed])
        sweep = self.service.submit(
            *("sweep", "--model=tiny", "--task=everyday", "--limit=4", "--scores=value_norm", "--fractions=.3"),
            "--intervention=mean",
        )
        self.service.finish(sweep)

    def test_a_score_of_ones_own(self) -> None:
        mine = "--user-score=mine = output / value, below"
        table = self.service.json("thresholds", self.scores, mine, "--fraction=0.25")["tables"][0]
        value = table["points"][0]["value"]
        records = self.ablate(mine, f"--rule=mine<{value!r}", "--rule=mine@0.25", f"--score-job={self.scores}")
        self.assertEqual(self.masks(records, 0), self.masks(records, 1))
        self.assertTrue(any(self.masks(records, 0).values()))
        self.assertIn("layer", self.service.cli("heads", self.scores, mine))
        # log(entropy - entropy) is -inf everywhere: no sample can be decided.
        bad = self.ablate("--user-score=bad = log(entropy - entropy), below", "--rule=bad<0")
        self.assertTrue(all(not r.get("finite", False) for r in bad if r["rule"] == 0))
        error = self.service.refused(
            "submit",
            "ablate",
            "--model=tiny",
            "--task=everyday",
            "--rule=heads=0.0",
            "--user-score=x = output +, below",
        ).error
        self.assertIn("position 8", error["message"])

    def test_slips_name_their_position(self) -> None:
        for rule, parts in {
            "a := random=0.1 ; a and (b": ["ablate.rules[1].expression", "expected ')'", "position 8"],
            "a := random=0.1 ; a and b": ["ablate.rules[1].expression", "is not the name of a rule"],
            "a := b and b ; b := a or a": ["made of itself"],
        }.items():
            rules = [f"--rule={text.strip()}" for text in rule.split(";")]
            error = self.service.refused("submit", "ablate", "--model=tiny", "--task=everyday", *rules).error
            self.assertEqual(error["code"], "INVALID_ARGUMENT")
            for part in parts:
                self.assertIn(part, error["message"])

    def test_interventions_change_the_same_heads_to_different_ends(self) -> None:
        records = {}
        for intervention in ("zero", "scale=0", "scale=1", "scale=0.5", "first_value"):
            records[intervention] = self.ablate("--rule=heads=0.1,2.3", f"--intervention={intervention}")
        kept = {r["sample"]: r["log_likelihoods"] for r in records["zero"] if r["rule"] == -1}

        def likelihoods(intervention: str) -> dict[str, list[float]]:
            return {r["sample"]: r["log_likelihoods"] for r in records[intervention] if r["rule"] == 0}

        for intervention, rows in records.items():
            self.assertTrue(all(abs(r["share_zeroed"] - 2 / 12) < 1e-9 for r in rows if r["rule"] == 0), intervention)
        self.assertEqual(likelihoods("zero"), likelihoods("scale=0"))
        for sample, values in likelihoods("scale=1").items():
            for a, b in zip(values, kept[sample], strict=True):
                self.assertAlmostEqual(a, b, delta=1e-4)
        different = [likelihoods(i) for i in ("zero", "scale=0.5", "first_value")] + [kept]
        for i, one in enumerate(different):
            self.assertTrue(all(one != other for other in different[:i]))


if __name__ == "__main__":
    unittest.main()
