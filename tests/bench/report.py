#!/usr/bin/env python3
"""What the benchmarks say: rows with their limits, as a table, as JSON, and against an earlier table.

usage: report.py FILE.json    prints the table of a saved run in Markdown, as docs/performance.md shows it

Used by run.py; tested by test_report.py. Pure: nothing is measured here.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

GIB = 1 << 30


@dataclass(frozen=True)
class Target:
    """What a row must be. `unit` is "x" for a ratio and "bytes" for memory."""

    key: str
    title: str
    limit: float
    at_most: bool
    stretch: float | None = None
    unit: str = "x"

    def holds(self, value: float) -> bool:
        return value <= self.limit if self.at_most else value >= self.limit

    def limit_text(self) -> str:
        text = f"{'<=' if self.at_most else '>='} {self.format(self.limit)}"
        return text if self.stretch is None else f"{text} (stretch {self.format(self.stretch)})"

    def format(self, value: float) -> str:
        if self.unit == "bytes":
            return f"{value / GIB:.2f} GiB"
        return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


@dataclass
class Row:
    """One measured target. `value` is the median of `values`; `cpu` the same ratio in processor time."""

    target: Target
    value: float | None = None
    low: float = 0.0
    high: float = 0.0
    pairs: int = 0
    cpu: float | None = None
    skipped: str = ""
    detail: dict = field(default_factory=dict)

    @staticmethod
    def of(target: Target, values: list[float], cpu: list[float] | None = None, **detail: object) -> Row:
        return Row(
            target,
            value=median(values),
            low=min(values),
            high=max(values),
            pairs=len(values),
            cpu=median(cpu) if cpu else None,
            detail=detail,
        )

    def verdict(self, clock: str = "wall") -> str:
        """`clock` "cpu" judges by processor time where the row has one."""
        if self.value is None:
            return f"skipped: {self.skipped}"
        value = self.cpu if clock == "cpu" and self.cpu is not None else self.value
        return "holds" if self.target.holds(value) else "BROKEN"

    def cells(self, clock: str = "wall") -> list[str]:
        name = f"{self.target.title} [{self.target.key}]"
        if self.value is None:
            return [name, "", self.target.limit_text(), "", "", self.verdict(clock)]
        show = self.target.format
        return [
            name,
            show(self.value),
            self.target.limit_text(),
            f"{show(self.low)} .. {show(self.high)} ({self.pairs})",
            "" if self.cpu is None else show(self.cpu),
            self.verdict(clock),
        ]


HEADINGS = ["what", "measured", "must be", "spread (runs)", "by processor time", ""]


def text_table(rows: list[Row], clock: str = "wall") -> str:
    table = [HEADINGS] + [row.cells(clock) for row in rows]
    widths = [max(len(line[i]) for line in table) for i in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table
    )


def markdown_table(rows: list[Row], clock: str = "wall") -> str:
    lines = [HEADINGS, ["---"] * len(HEADINGS)] + [row.cells(clock) for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def to_json(rows: list[Row], context: dict, commit: str = "") -> dict:
    """{"context": where and how, KEY: {..., "commit": what was measured}, ...}."""
    result: dict = {"context": context}
    for row in rows:
        value = asdict(row)
        value.update(value.pop("target"))
        del value["key"]
        if row.value is not None:
            value["commit"] = commit
            value["holds"] = row.verdict(context.get("clock", "wall")) == "holds"
        result[row.target.key] = value
    return result


def merge(saved: dict, earlier: dict) -> dict:
    """A saved run with the rows that it did not measure taken from an earlier one of the same machine and model."""
    same = all(
        saved["context"].get(name) == earlier["context"].get(name)
        for name in ("processor", "model", "threads", "device", "dtype")
    )
    if not same:
        return saved
    kept = {key: row for key, row in earlier.items() if key not in saved or saved[key].get("value", 0) is None}
    return {**saved, **kept}


def from_json(saved: dict) -> list[Row]:
    rows = []
    for key, value in saved.items():
        if key == "context":
            continue
        target = Target(key, *(value[name] for name in ("title", "limit", "at_most", "stretch", "unit")))
        fields = {name: value[name] for name in ("value", "low", "high", "pairs", "cpu", "skipped", "detail")}
        rows.append(Row(target, **fields))
    return rows


def compare(rows: list[Row], saved: dict) -> list[str]:
    """What moved since the saved run: a line for each row whose spread no longer meets the earlier one."""
    earlier = {row.target.key: row for row in from_json(saved)}
    lines = []
    for row in rows:
        old = earlier.get(row.target.key)
        if row.value is None:
            continue
        show = row.target.format
        if old is None or old.value is None:
            lines.append(f"{row.target.key}: {show(row.value)}, not measured before")
            continue
        if row.low <= old.high and old.low <= row.high:
            continue
        better = (row.value < old.value) == row.target.at_most
        change = 100 * (row.value / old.value - 1) if old.value else 0.0
        lines.append(
            f"{row.target.key}: {show(old.value)} -> {show(row.value)} ({change:+.0f} %), "
            f"{'better' if better else 'WORSE'}"
        )
    return lines


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    saved = json.loads(Path(sys.argv[1]).read_text())
    print(markdown_table(from_json(saved), saved["context"].get("clock", "wall")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
