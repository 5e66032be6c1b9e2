"""Shipped tasks from data files to results, on a tiny random model and rows written here in the data sets' form."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path
from typing import Any

from harness import Service, service

SENTENCES = [
    ("The cup did not fit into the bag because the _ was too big.", "cup", "bag", "1"),
    ("Ann thanked Eve because _ had helped her.", "Ann", "Eve", "2"),
    ("He took the bike and not the bus because the _ was late.", "bike", "bus", "2"),
    ("The dog chased the cat until the _ was up a tree.", "dog", "cat", "2"),
]


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
        cls.context = service(data={"winogrande": rows / "winogrande"})
        cls.service: Service = cls.context.__enter__()

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


if __name__ == "__main__":
    unittest.main()
