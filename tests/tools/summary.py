#!/usr/bin/env python3
"""Counts what deploy/test.sh ran and prints "N passed, N failed, N skipped" as the last line.

usage: summary.py RESULTS

RESULTS holds, for each build, <build>.ctest.xml (ctest's JUnit file) and <build>/*.xml (one GoogleTest-style file a
test program), and NAME.check files with "pass" or "fail". A program that wrote its own file is counted by its cases;
one that did not (it crashed, or is no GoogleTest) counts as one. Exit code 1 when something failed or nothing ran.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path


def count_cases(file: Path) -> tuple[int, int, list[str], list[str]]:
    """(passed, failed, skipped, failures) of one GoogleTest XML file."""
    passed, failed, skipped, failures = 0, 0, [], []
    for case in ET.parse(file).getroot().iter("testcase"):
        name = f"{file.stem}: {case.get('classname')}.{case.get('name')}"
        if case.get("status") == "notrun":
            continue
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
            failures.append(name)
        elif case.find("skipped") is not None or case.get("result") == "skipped":
            skip = case.find("skipped")
            reason = (skip.get("message") or "").splitlines() if skip is not None else []
            skipped.append(f"{name}: {reason[-1] if reason else 'skipped'}")
        else:
            passed += 1
    return passed, failed, skipped, failures


def main(results: Path) -> int:
    passed, failed = 0, 0
    skipped: list[str] = []
    failures: list[str] = []
    for check in sorted(results.glob("*.check")):
        if check.read_text().strip() == "pass":
            passed += 1
        else:
            failed += 1
            failures.append(check.stem)
    for junit in sorted(results.glob("*.ctest.xml")):
        build = junit.name.removesuffix(".ctest.xml")
        for entry in ET.parse(junit).getroot().iter("testcase"):
            name, status = entry.get("name", "?"), entry.get("status")
            files = sorted((results / build).glob(f"{name}.xml"))
            try:
                counts = [count_cases(f) for f in files]
            except ET.ParseError:
                counts = []
            cases_failed = sum(c[1] for c in counts)
            for p, f, s, lines in counts:
                passed, failed = passed + p, failed + f
                skipped += [f"{build}: {line}" for line in s]
                failures += [f"{build}: {line}" for line in lines]
            if status == "fail" and cases_failed == 0:  # crashed, timed out, or failed outside its cases
                failed += 1
                failures.append(f"{build}: {name}")
            elif status in ("notrun", "disabled", "skipped") and not counts:
                skipped.append(f"{build}: {name}")
            elif not counts and status == "run":
                passed += 1
    for line in skipped:
        print(f"SKIPPED {line}")
    for line in failures:
        print(f"FAILED {line}")
    print(f"{passed} passed, {failed} failed, {len(skipped)} skipped")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
