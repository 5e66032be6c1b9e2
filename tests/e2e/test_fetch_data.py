"""deploy/fetch_data.py against a hub of a few rows: layout, digests, second runs, and what it refuses.

With HEADCOUNT_SHARED the real questions make the round trip and must come back with the same fields.
"""

from __future__ import annotations

import csv
import hashlib
import http.server
import io
import json
import os
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any

from harness import ROOT

PYTHON = os.environ.get("HEADCOUNT_PYTHON", "python3")
SHARED = Path(os.environ.get("HEADCOUNT_SHARED", ROOT.parent / "shared"))
# Rows as JSON on standard input become a Parquet file.
WRITE = """
import json, sys, pyarrow, pyarrow.parquet
pyarrow.parquet.write_table(pyarrow.Table.from_pylist(json.load(sys.stdin)), sys.argv[1])
"""


class Hub:
    """A folder served as the hub serves it: data sets as {config: {split: rows}}."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.requests: list[str] = []
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hub.requests.append(self.path)
                file = hub.folder / self.path.strip("/").replace("/", "+")
                self.send_response(200 if file.exists() else 404)
                self.end_headers()
                if file.exists():
                    self.wfile.write(file.read_bytes())

            def log_message(self, *args: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def put(self, repository: str, configs: dict[str, dict[str, list[dict[str, Any]]]]) -> None:
        index: dict[str, dict[str, list[str]]] = {}
        for config, splits in configs.items():
            for split, rows in splits.items():
                path = f"files/{repository}/{config}/{split}/0.parquet"
                out = self.folder / path.replace("/", "+")
                subprocess.run([PYTHON, "-c", WRITE, str(out)], input=json.dumps(rows), text=True, check=True)
                index.setdefault(config, {})[split] = [f"{self.address}/{path}"]
        (self.folder / f"api+datasets+{repository.replace('/', '+')}+parquet").write_text(json.dumps(index))


class FetchDataTest(unittest.TestCase):
    def setUp(self) -> None:
        self.scratch = tempfile.TemporaryDirectory()
        root = Path(self.scratch.name)
        (root / "hub").mkdir()
        self.hub, self.data = Hub(root / "hub"), root / "data"
        self.addCleanup(self.scratch.cleanup)
        self.addCleanup(self.hub.server.server_close)
        self.addCleanup(self.hub.server.shutdown)

    def fetch(self, *flags: str) -> subprocess.CompletedProcess[str]:
        command = [PYTHON, str(ROOT / "deploy" / "fetch_data.py"), str(self.data), "--hub", self.hub.address, *flags]
        env = {**os.environ, "no_proxy": "*"}
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=env)

    def put_gsm8k(self, question: str = "1 + 1?") -> None:
        rows = [{"question": question, "answer": "naïve\n#### 2"}]
        self.hub.put("openai/gsm8k", {"main": {"test": rows, "train": rows * 2}, "socratic": {"test": rows}})

    def test_json_lines_with_digests_and_a_second_run_that_gets_nothing(self) -> None:
        self.put_gsm8k()
        done = self.fetch("--task=gsm8k", "--any-size")
        self.assertEqual(done.returncode, 0, done.stderr)
        folder = self.data / "gsm8k"
        self.assertIn(f"--data gsm8k={folder.resolve()}", done.stdout)
        lines = (folder / "train.jsonl").read_text().splitlines()
        self.assertEqual([json.loads(line) for line in lines], [{"question": "1 + 1?", "answer": "naïve\n#### 2"}] * 2)
        sums = dict(reversed(line.split("  ")) for line in (folder / "SHA256SUMS").read_text().splitlines())
        self.assertEqual(set(sums), {"test.jsonl", "train.jsonl"})
        for path, value in sums.items():
            self.assertEqual(hashlib.sha256((folder / path).read_bytes()).hexdigest(), value)
        self.hub.requests.clear()
        self.assertEqual(self.fetch("--task=gsm8k", "--any-size").returncode, 0)
        self.assertEqual([r for r in self.hub.requests if r.startswith("/files")], [])
        # A file that has changed since is got again.
        (folder / "test.jsonl").write_text("")
        self.assertEqual(self.fetch("--task=gsm8k", "--any-size").returncode, 0)
        self.assertEqual(hashlib.sha256((folder / "test.jsonl").read_bytes()).hexdigest(), sums["test.jsonl"])

    def test_mmlu_is_a_csv_file_for_each_subject(self) -> None:
        row = {"question": 'Which, "of"\nthese?', "subject": "x", "choices": ["a, b", "c", "d", "e"], "answer": 2}
        subject = {"test": [row, row], "dev": [row]}
        self.hub.put("cais/mmlu", {"anatomy": subject, "virology": subject, "all": {"test": [row]}})
        done = self.fetch("--task=mmlu", "--any-size")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = sorted(str(p.relative_to(self.data / "mmlu")) for p in (self.data / "mmlu").glob("*/*.csv"))
        self.assertEqual(
            found, ["dev/anatomy_dev.csv", "dev/virology_dev.csv", "test/anatomy_test.csv", "test/virology_test.csv"]
        )
        read = list(csv.reader(io.StringIO((self.data / "mmlu/test/anatomy_test.csv").read_text())))
        self.assertEqual(read, [['Which, "of"\nthese?', "a, b", "c", "d", "e", "C"]] * 2)

    def test_what_is_wrong_is_said_and_nothing_is_written(self) -> None:
        self.put_gsm8k()
        cases = {
            ("--task=gsm8k",): "1 rows where 1319 are expected",
            ("--task=piqa",): "404",
            ("--task=nope",): "invalid choice",
        }
        for flags, message in cases.items():
            done = self.fetch(*flags)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(message, done.stderr)
            self.assertNotIn("Traceback", done.stderr)
        self.hub.put("allenai/winogrande", {"winogrande_xl": {"validation": [{"text": "?"}]}})
        done = self.fetch("--task=winogrande", "--any-size")
        self.assertIn("other columns than expected: 'sentence'", done.stderr)
        self.assertEqual([p for p in self.data.rglob("*") if p.is_file()], [])

    def test_the_real_questions_come_back(self) -> None:
        source = SHARED / "data" / "gsm8k"
        if not source.exists():
            self.skipTest(f"no {source}: set HEADCOUNT_SHARED")
        rows = {
            s: [json.loads(x) for x in (source / f"{s}.jsonl").read_text().split("\n") if x] for s in ("test", "train")
        }
        self.hub.put("openai/gsm8k", {"main": rows})
        done = self.fetch("--task=gsm8k")
        self.assertEqual(done.returncode, 0, done.stderr)
        for split, expected in rows.items():
            got = [json.loads(x) for x in (self.data / "gsm8k" / f"{split}.jsonl").read_text().split("\n") if x]
            self.assertEqual(got, [{"question": r["question"], "answer": r["answer"]} for r in expected])


if __name__ == "__main__":
    unittest.main()
