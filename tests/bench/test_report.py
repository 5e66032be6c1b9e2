"""The pure part of the benchmarks: verdicts, the table, and what counts as moved."""

from __future__ import annotations

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from report import GIB, Row, Target, compare, from_json, markdown_table, merge, text_table, to_json

COST = Target("cost", "a cost", 1.2, at_most=True)
SPEEDUP = Target("speedup", "a speedup", 4, at_most=False, stretch=6)


class ReportTest(unittest.TestCase):
    def test_a_row_is_its_median_with_the_spread(self) -> None:
        row = Row.of(COST, [1.3, 1.0, 1.1, 1.2, 1.15])
        self.assertEqual((row.value, row.low, row.high, row.pairs), (1.15, 1.0, 1.3, 5))

    def test_limits_hold_at_their_value_and_on_their_side(self) -> None:
        self.assertEqual(Row.of(COST, [1.2]).verdict(), "holds")
        self.assertEqual(Row.of(COST, [1.21]).verdict(), "BROKEN")
        self.assertEqual(Row.of(SPEEDUP, [4.0]).verdict(), "holds")
        self.assertEqual(Row.of(SPEEDUP, [3.9]).verdict(), "BROKEN")
        self.assertEqual(Row(COST, skipped="needs --peers").verdict(), "skipped: needs --peers")

    def test_the_clock_chooses_what_is_judged(self) -> None:
        row = Row.of(COST, [1.5], [1.1])
        self.assertEqual(row.verdict("wall"), "BROKEN")
        self.assertEqual(row.verdict("cpu"), "holds")
        self.assertEqual(Row.of(COST, [1.5]).verdict("cpu"), "BROKEN")  # no processor time: wall it is

    def test_tables_say_measured_limit_spread_and_verdict(self) -> None:
        memory = Target("bytes", "memory", 1.6 * GIB, True, unit="bytes")
        rows = [Row.of(SPEEDUP, [5.25, 5.0, 5.5], [5.1]), Row(COST, skipped="why"), Row.of(memory, [GIB])]
        table = text_table(rows)
        for text in ("5.25", ">= 4 (stretch 6)", "5 .. 5.5 (3)", "5.1", "holds", "skipped: why", "1.00 GiB"):
            self.assertIn(text, table)
        markdown = markdown_table(rows).splitlines()
        self.assertEqual(len(markdown), 5)
        self.assertTrue(all(line.count("|") == 7 for line in markdown))

    def test_a_saved_table_reads_back(self) -> None:
        rows = [Row.of(SPEEDUP, [5.0, 6.0, 7.0], [5.5], questions=25), Row(COST, skipped="why")]
        saved = json.loads(json.dumps(to_json(rows, {"clock": "wall"})))
        self.assertEqual(from_json(saved), rows)
        self.assertTrue(saved["speedup"]["holds"])
        self.assertNotIn("holds", saved["cost"])

    def test_rows_that_were_not_measured_again_stay(self) -> None:
        here = {"processor": "a", "model": "m", "threads": 2}
        earlier = to_json([Row.of(COST, [1.0]), Row.of(SPEEDUP, [5.0])], here, "old")
        later = merge(to_json([Row.of(COST, [1.1])], here, "new"), earlier)
        self.assertEqual((later["cost"]["value"], later["cost"]["commit"]), (1.1, "new"))
        self.assertEqual((later["speedup"]["value"], later["speedup"]["commit"]), (5.0, "old"))
        skipped = merge(to_json([Row(COST, skipped="why")], here, "new"), earlier)
        self.assertEqual(skipped["cost"]["value"], 1.0)
        elsewhere = merge(to_json([Row.of(COST, [1.1])], {**here, "processor": "b"}), earlier)
        self.assertNotIn("speedup", elsewhere)

    def test_moved_is_what_left_its_earlier_spread(self) -> None:
        saved = to_json([Row.of(COST, [1.0, 1.1, 1.2]), Row.of(SPEEDUP, [5.0, 5.1, 5.2])], {})
        self.assertEqual(compare([Row.of(COST, [1.15, 1.3, 1.4])], saved), [])
        (worse,) = compare([Row.of(COST, [1.3, 1.4, 1.5])], saved)
        self.assertIn("WORSE", worse)
        self.assertIn("1.1 -> 1.4 (+27 %)", worse)
        (better,) = compare([Row.of(SPEEDUP, [6.0, 6.1])], saved)
        self.assertIn("better", better)
        new = Target("new", "new", 1, True)
        self.assertEqual(
            compare([Row.of(new, [1.0]), Row(COST, skipped="why")], saved), ["new: 1, not measured before"]
        )


if __name__ == "__main__":
    unittest.main()
