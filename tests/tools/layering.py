#!/usr/bin/env python3
"""Checks that includes follow the one direction of flow (docs/how-it-works.md).

Run by ctest as `layering`; by hand: tests/tools/layering.py [ROOT]. Exit code 1 and one line per forbidden include.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)

# Folder -> what it may include of the project. The longest matching folder decides.
ALLOWED: dict[str, tuple[str, ...]] = {
    "common/base": ("common/base",),
    "common/catalog": ("common/base", "common/catalog"),
    "common/config": ("common/base", "common/config"),
    "common/tasks": ("common/base", "common/hf", "common/tasks"),
    "common/hf": ("common/base", "common/hf"),
    "common/format": ("common/base", "common/format", "headcount/v1", "google/rpc"),
    "common/parquet": ("common/base", "common/parquet"),
    "common/rpc": ("common/", "headcount/v1", "google/rpc"),
    "server": ("common/", "server/", "headcount/v1", "google/rpc"),
    "worker/engine": ("common/base", "common/catalog", "worker/engine"),
    "worker/eval": ("common/", "worker/eval", "headcount/v1", "google/rpc"),
    "worker/agent": ("common/", "worker/", "headcount/v1", "google/rpc"),
    "client": ("common/", "client/", "headcount/v1", "google/rpc"),
}
PROJECT = ("common/", "server/", "worker/", "client/", "headcount/v1", "google/rpc")

# Outside libraries that only these folders may touch.
RESERVED: dict[str, tuple[str, ...]] = {
    r"^(ATen|c10|torch)/": ("worker/engine",),
    r"^grpc(pp)?/": (
        "common/rpc",
        "server/api",
        "server/watch",
        "server/launch",
        "server/headcountd",
        "worker/agent",
        "client",
    ),
    r"^sqlite3\.h$": ("server/store",),
    r"^(arrow|parquet)/": ("server/export", "common/parquet"),
    r"^google/protobuf/": ("common/format", "common/rpc", "server", "worker/eval", "worker/agent", "client"),
}
# The clock is injected: nobody else asks the system for the time.
CLOCK = re.compile(r"(steady_clock|system_clock|high_resolution_clock)::now\(|absl::Now\(|\btime\((nullptr|NULL|0)\)")


def rule_for(path: str) -> tuple[str, ...] | None:
    best = max((f for f in ALLOWED if path.startswith(f + "/")), key=len, default=None)
    return ALLOWED[best] if best else None


def check(root: Path) -> list[str]:
    problems: list[str] = []
    files = [p for top in ("common", "server", "worker", "client") for p in sorted((root / top).rglob("*.[hc]*"))]
    files = [p for p in files if p.suffix in (".h", ".cc")]
    if len(files) < 20:
        return [f"{root}: only {len(files)} source files found, this check would prove nothing"]
    for file in files:
        path = file.relative_to(root).as_posix()
        allowed = rule_for(path)
        if allowed is None:
            problems.append(f"{path}: lies in a folder without a rule; add one to tests/tools/layering.py")
            continue
        text = file.read_text(encoding="utf-8")
        for name in INCLUDE.findall(text):
            if name.startswith(PROJECT) and not name.startswith(allowed):
                problems.append(f"{path}: must not include {name}")
            for pattern, folders in RESERVED.items():
                if re.search(pattern, name) and not path.startswith(tuple(f + "/" for f in folders)):
                    problems.append(f"{path}: must not include {name} (only {', '.join(folders)} may)")
        if path != "common/base/clock.cc" and CLOCK.search(text):
            problems.append(f"{path}: asks the system for the time; take a Clock (common/base/clock.h)")
    return problems


def self_test() -> list[str]:
    """The rules must catch what they are for."""
    cases = {
        ("server/api/x.cc", "worker/engine/engine.h"): True,
        ("worker/engine/x.cc", "headcount/v1/job.pb.h"): True,
        ("common/catalog/x.cc", "headcount/v1/job.pb.h"): True,
        ("worker/agent/x.cc", "worker/engine/engine.h"): False,
    }
    wrong = []
    for (path, name), forbidden in cases.items():
        allowed = rule_for(path) or ()
        if (not name.startswith(allowed)) != forbidden:
            wrong.append(f"self test: {path} including {name} should be {'refused' if forbidden else 'allowed'}")
    return wrong


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    problems = self_test() + check(root)
    print("\n".join(problems) if problems else "layering: every include follows the one direction of flow")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
