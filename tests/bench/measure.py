"""Sides that take turns: long-lived processes that time one pass a command, and the ratios between them.

Every ratio is of two sides measured one right after the other, so that a machine that slows down slows both. Used by
run.py and the files of cases beside it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

PAIRS = 5
LONG_SECONDS = 10.0  # passes over this are long,
LONG_PAIRS = 3  # and fewer of them will do


class Skip(Exception):
    """This row cannot be measured here; the text says why."""


@dataclass(frozen=True)
class Cost:
    seconds: float
    cpu_seconds: float
    share: float = 0.0  # of heads zeroed

    def times(self, factor: float) -> Cost:
        return Cost(self.seconds * factor, self.cpu_seconds * factor, self.share)


def total(costs: list[Cost]) -> Cost:
    return Cost(sum(c.seconds for c in costs), sum(c.cpu_seconds for c in costs))


@dataclass(frozen=True)
class Ratios:
    """a / b of every pair, in wall and in processor time, and the medians' worth of seconds."""

    wall: list[float]
    cpu: list[float]
    detail: dict


class Side:
    """A process that answers JSON lines (engine_bench, the peers). Started at the first command."""

    def __init__(self, name: str, command: list[str], *, peer: bool = False) -> None:
        """A peer that does not work leaves its rows out; the engine ends the run."""
        self.name = name
        self.failure = Skip if peer else RuntimeError
        self.command = command
        self.process: subprocess.Popen[str] | None = None

    def ask(self, case: str, **fields: object) -> dict:
        if self.process is None:
            progress(f"    starting {self.name}")
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self._answer()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"case": case, **fields}) + "\n")
        self.process.stdin.flush()
        answer = self._answer()
        if "error" in answer:
            raise self.failure(f"{self.name} cannot {case}: {answer['error']}")
        return answer

    def cost(self, case: str, **fields: object) -> Cost:
        answer = self.ask(case, **fields)
        return Cost(answer["seconds"], answer["cpu_seconds"], answer.get("share", 0.0))

    def close(self) -> None:
        if self.process is None:
            return
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        self.process = None

    def _answer(self) -> dict:
        assert self.process is not None and self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            process, self.process = self.process, None
            raise self.failure(f"{self.name} ended with exit code {process.wait()}")
        return json.loads(line)


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def pairs(a: Callable[[], Cost], b: Callable[[], Cost], *, warm: bool = True) -> list[tuple[Cost, Cost]]:
    """Runs both in turn; which one goes first alternates, so that neither always follows the other."""
    if warm:
        a()
        b()
    result: list[tuple[Cost, Cost]] = []
    count = PAIRS
    while len(result) < count:
        if len(result) % 2 == 0:
            first = a()
            pair = (first, b())
        else:
            second = b()
            pair = (a(), second)
        result.append(pair)
        if max(pair[0].seconds, pair[1].seconds) > LONG_SECONDS:
            count = LONG_PAIRS
        progress(f"    pair {len(result)}/{count}: {pair[0].seconds:.2f} s / {pair[1].seconds:.2f} s")
    return result


def ratios(done: list[tuple[Cost, Cost]], names: tuple[str, str]) -> Ratios:
    def middle(values: list[float]) -> float:
        return float(f"{sorted(values)[len(values) // 2]:.4g}")

    detail = {}
    for side, name in enumerate(names):
        detail[f"{name}_seconds"] = middle([pair[side].seconds for pair in done])
        detail[f"{name}_cpu_seconds"] = middle([pair[side].cpu_seconds for pair in done])
    return Ratios(
        [a.seconds / b.seconds for a, b in done],
        [a.cpu_seconds / b.cpu_seconds for a, b in done],
        detail,
    )


def stopwatch() -> Callable[[], float]:
    start = time.monotonic()
    return lambda: time.monotonic() - start
