"""Measures the table of docs/performance.md: which rows there are, what each must be, and who is asked.

Called by run.sh, which builds first. Prints progress on standard error as it goes and the table on standard output.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import engine_cases
import service_cases
from bench import ROOT, Bench
from measure import Ratios, Skip, progress, stopwatch
from report import GIB, Row, Target, compare, merge, text_table, to_json

LAST = ROOT / "docs" / "performance.json"


@dataclass(frozen=True)
class Case:
    target: Target
    measure: Callable[[Bench], Ratios]
    quick: bool = True


def speedup(key: str, title: str, limit: float, stretch: float | None = None) -> Target:
    return Target(key, title, limit, at_most=False, stretch=stretch)


def cost(key: str, title: str, limit: float) -> Target:
    return Target(key, title, limit, at_most=True)


CASES = [
    Case(cost("plain_over_sdpa", "our plain pass / transformers SDPA, 600 tokens", 1.0), engine_cases.plain_over_sdpa),
    Case(cost("record_over_plain", "recording all / our plain pass, 600 tokens", 1.2), engine_cases.record_over_plain),
    Case(speedup("record_vs_hooks", "a user's hooks / our recording, 600 tokens", 1.5), engine_cases.record_vs_hooks),
    Case(
        speedup("record_vs_hooks_1200", "a user's hooks / our recording, 1,200 tokens", 2.5),
        engine_cases.record_vs_hooks_1200,
    ),
    Case(
        speedup("record_speedup", "the authors' 15 recordings / our recording, 600 tokens", 18),
        engine_cases.record_speedup,
    ),
    Case(
        speedup("record_speedup_mmlu", "the authors' 15 recordings / our recording, 25 MMLU questions", 60, 110),
        engine_cases.record_speedup_mmlu,
    ),
    Case(
        speedup("ablate_speedup", "the authors' ablation / ours, 600 tokens", 1.6),
        engine_cases.ablate_speedup,
    ),
    Case(
        speedup("ablate_speedup_1200", "the authors' ablation / ours, 1,200 tokens", 4),
        engine_cases.ablate_speedup_1200,
        quick=False,
    ),
    Case(
        speedup("ablate_speedup_mmlu", "the authors' ablation / ours, 25 MMLU questions", 4, 6),
        engine_cases.ablate_speedup_mmlu,
    ),
    Case(
        Target("record_peak_bytes_4096", "peak memory, recording 4,096 tokens", 1.6 * GIB, at_most=True, unit="bytes"),
        engine_cases.record_peak_bytes_4096,
    ),
    Case(
        cost("record_peak_8192_over_4096", "peak memory, 8,192 tokens / 4,096 tokens", 1.3),
        engine_cases.record_peak_8192_over_4096,
    ),
    Case(
        speedup("generate_speedup", "64 tokens after 700: the authors' pass a step / ours", 8, 20),
        engine_cases.generate_speedup,
    ),
    Case(cost("sharing_worst_case", "random rules, sharing on / off", 1.08), engine_cases.sharing_worst_case),
    Case(cost("service_overhead", "processor time of a sweep outside / inside the engine", 0.02),
         service_cases.service_overhead),
    Case(cost("scaling", "time per token at 200 / at 20 samples of one job", 1.05), service_cases.scaling, quick=False),
    Case(
        speedup("sweep_speedup_long", "whole sweep, 8 long questions, 4 scores: theirs / ours", 12, 20),
        service_cases.sweep_speedup_long,
        quick=False,
    ),
    Case(
        speedup("sweep_speedup_mmlu", "whole sweep, 25 questions, 15 scores: theirs / ours", 5, 8),
        service_cases.sweep_speedup_mmlu,
        quick=False,
    ),
]  # fmt: skip


def measure_case(bench: Bench, case: Case) -> Row:
    try:
        result = case.measure(bench)
    except Skip as reason:
        progress(f"    skipped: {reason}")
        return Row(case.target, skipped=str(reason))
    return Row.of(case.target, result.wall, result.cpu, **result.detail)


def measure_all(bench: Bench, only: set[str], quick: bool) -> list[Row]:
    chosen = [case for case in CASES if (not only or case.target.key in only) and (case.quick or not quick or only)]
    elapsed = stopwatch()
    rows: list[Row] = []
    for number, case in enumerate(chosen, 1):
        progress(f"[{elapsed() / 60:5.1f} min] {number}/{len(chosen)} {case.target.key}: {case.target.title}")
        rows.append(measure_case(bench, case))
        if rows[-1].value is not None:
            progress(f"    {' | '.join(rows[-1].cells()[1:])}")
    progress(f"[{elapsed() / 60:5.1f} min] done")
    return rows


def processor_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def context(arguments: argparse.Namespace) -> dict:
    return {
        "date": datetime.date.today().isoformat(),
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "threads": arguments.threads,
        "device": arguments.device,
        "dtype": arguments.dtype,
        "model": arguments.model.resolve().name,
        "clock": arguments.clock,
    }


def commit() -> str:
    git = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()


def parse_arguments() -> argparse.Namespace:
    keys = ", ".join([case.target.key for case in CASES])
    parser = argparse.ArgumentParser(
        prog="tests/bench/run.sh", description="See run.sh --help.", epilog=f"Keys: {keys}"
    )
    prefix = Path(os.environ.get("HEADCOUNT_PREFIX", Path.home() / ".cache" / "headcount"))
    shared = Path(os.environ.get("HEADCOUNT_SHARED", ROOT / ".." / "shared"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--reference", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--model", type=Path, default=prefix / "models" / "SmolLM2-135M-Instruct")
    parser.add_argument("--data", type=Path, default=shared.resolve() / "data")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    arguments = parser.parse_args()
    if not (arguments.model / "config.json").is_file():
        parser.error(f"--model: no model in {arguments.model}; run deploy/demo_model.py first")
    unknown = set(filter(None, arguments.only.split(","))) - {case.target.key for case in CASES}
    if unknown:
        parser.error(f"--only: no such key: {', '.join(sorted(unknown))}; keys: {keys}")
    if arguments.peers is not None and not (arguments.peers / "bin" / "python").is_file():
        parser.error(f"--peers: no virtual environment in {arguments.peers}")
    if arguments.reference is not None and not (arguments.reference / "monkey_patch_utils.py").is_file():
        parser.error(f"--reference: no checkout of the authors' code in {arguments.reference}")
    return arguments


def main() -> int:
    arguments = parse_arguments()
    measured = commit()  # what was built just now, whatever is checked out at the end
    bench = Bench(arguments)
    try:
        rows = measure_all(bench, set(filter(None, arguments.only.split(","))), arguments.quick)
    finally:
        bench.close()
    print(text_table(rows, arguments.clock))
    if arguments.json is not None:
        saved = to_json(rows, context(arguments), measured)
        if arguments.only and arguments.json.is_file():
            saved = merge(saved, json.loads(arguments.json.read_text()))
        arguments.json.write_text(json.dumps(saved, indent=1) + "\n")
    if arguments.compare:
        moved = compare(rows, json.loads(LAST.read_text())) if LAST.is_file() else [f"{LAST} is not there"]
        print("\nMoved since docs/performance.json:", *(moved or ["nothing"]), sep="\n  ")
    return 1 if any(row.verdict(arguments.clock) == "BROKEN" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
