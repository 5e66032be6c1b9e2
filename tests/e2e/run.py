#!/usr/bin/env python3
"""Runs the test cases of one file and writes their results where deploy/test.sh counts them.

usage: run.py FILE.py   (ctest calls it; by hand: tests/e2e/run.py tests/e2e/test_service.py)

With GTEST_OUTPUT=xml:FOLDER/ in the environment the results go to FOLDER/<file>.xml in GoogleTest's format.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
import unittest
import xml.etree.ElementTree as ET
from pathlib import Path


class Recorder(unittest.TextTestResult):
    """Keeps what happened to each case."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.root = ET.Element("testsuites")
        self.case: ET.Element | None = None

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        owner, _, name = test.id().rpartition(".")
        self.case = ET.SubElement(self.root, "testcase", name=name, classname=owner, status="run", result="completed")
        self.started = time.monotonic()

    def stopTest(self, test: unittest.TestCase) -> None:
        if self.case is not None:
            self.case.set("time", f"{time.monotonic() - self.started:.3f}")
        super().stopTest(test)

    def addFailure(self, test: unittest.TestCase, err: object) -> None:
        super().addFailure(test, err)  # type: ignore[arg-type]
        self.failed(self.failures[-1][1])

    def addError(self, test: unittest.TestCase, err: object) -> None:
        super().addError(test, err)  # type: ignore[arg-type]
        self.failed(self.errors[-1][1])

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        if self.case is not None:
            self.case.set("result", "skipped")
            ET.SubElement(self.case, "skipped", message=reason)
        print(f"SKIPPED {test.id()}: {reason}", flush=True)

    def failed(self, text: str) -> None:
        case = self.case if self.case is not None else ET.SubElement(self.root, "testcase", name="set-up", status="run")
        ET.SubElement(case, "failure", message=text)


def main() -> int:
    file = Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    result = unittest.TextTestRunner(resultclass=Recorder, verbosity=2).run(suite)
    output = os.environ.get("GTEST_OUTPUT", "")
    if output.startswith("xml:"):
        folder = Path(output.removeprefix("xml:"))
        folder.mkdir(parents=True, exist_ok=True)
        ET.ElementTree(result.root).write(folder / f"{file.stem}.xml")  # type: ignore[attr-defined]
    return 0 if result.wasSuccessful() and result.testsRun > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
