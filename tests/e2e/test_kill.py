"""Processes die; nothing is lost or told twice, and the results are those of an undisturbed run, byte for byte."""

from __future__ import annotations

import json
import subprocess
import unittest
from pathlib import Path

from harness import Service, service, wait_for

SWEEP = (
    "sweep",
    "--model=tiny",
    "--task=everyday",
    "--limit=150",
    "--scores=output_norm_ln,entropy,last_output_norm_hn",
    "--fractions=.05,.1,.15,.2,.25,.3",
)


def result_bytes(server: Service, job: str, name: str) -> bytes:
    out = server.folder / name
    server.cli("download", job, "-o", str(out), "--artifact=samples.parquet,curves.parquet,scores.npy")
    return b"".join(path.read_bytes() for path in sorted(out.iterdir()))


def stored_units(server: Service, job: str, stage: str) -> int:
    shown = server.json("show", job)
    return int(shown["progress"]["done_units"]) if shown["progress"]["stage"] == stage else -1


def assert_every_event_once(test: unittest.TestCase, events: list[dict]) -> None:
    durable = [e for e in events if "snapshot" not in e and "progress" not in e]
    sequences = [int(e["sequence"]) for e in durable]
    test.assertEqual(sequences, list(range(1, len(sequences) + 1)))
    test.assertEqual(durable[-1]["state_changed"]["to"], "SUCCEEDED")


class KillTest(unittest.TestCase):
    def setUp(self) -> None:
        self.context = service()
        self.service: Service = self.context.__enter__()
        self.addCleanup(self.context.__exit__, None, None, None)

    def watch(self, job: str) -> tuple[subprocess.Popen[str], Path]:
        """`headcount --json watch JOB` in the background, its output in a file."""
        file = self.service.folder / "events.jsonl"
        with file.open("w") as out:
            return subprocess.Popen(self.service.command("--json", "watch", job), stdout=out, text=True), file

    def test_kill_9_of_the_worker_in_the_middle_of_a_sweep(self) -> None:
        undisturbed = self.service.submit(*SWEEP)
        self.service.finish(undisturbed)
        expected = result_bytes(self.service, undisturbed, "undisturbed")

        job = self.service.submit(*SWEEP, "--fresh")
        watching, file = self.watch(job)
        for _ in range(3):
            before = stored_units(self.service, job, "ablate")
            wait_for("another ablate unit", lambda before=before: self.moved(job, before))
            self.service.kill_worker()
        self.assertEqual(watching.wait(timeout=120), 0)
        self.service.finish(job)
        self.assertEqual(result_bytes(self.service, job, "killed"), expected)
        events = [json.loads(line) for line in file.read_text().splitlines()]
        assert_every_event_once(self, events)
        self.assertTrue([e for e in events if "task_lost" in e], "no task was lost: the kills came too late")

    def moved(self, job: str, before: int) -> bool:
        shown = self.service.json("show", job)
        if shown["state"] == "SUCCEEDED":
            return True
        return stored_units(self.service, job, "ablate") > before

    def test_kill_9_of_the_server_in_the_middle_of_a_sweep(self) -> None:
        undisturbed = self.service.submit(*SWEEP)
        self.service.finish(undisturbed)
        expected = result_bytes(self.service, undisturbed, "undisturbed")

        job = self.service.submit(*SWEEP, "--fresh")
        watching, file = self.watch(job)
        wait_for("some ablate units", lambda: self.moved(job, 0))
        workers = self.service.worker_pids()
        self.assertEqual(self.service.json("show", job)["state"], "RUNNING")
        self.service.kill()
        self.assertEqual(self.service.worker_pids(), workers)  # they outlive it
        self.service.start()
        self.assertEqual(watching.wait(timeout=120), 0)
        self.service.finish(job)
        self.assertEqual(result_bytes(self.service, job, "killed"), expected)
        assert_every_event_once(self, [json.loads(line) for line in file.read_text().splitlines()])
        self.assertEqual(self.service.worker_pids(), workers)  # and were found again, not doubled

    def test_an_orderly_stop_takes_the_workers_along(self) -> None:
        wait_for("a worker", self.service.worker_pids)
        self.service.stop()
        wait_for("no worker left", lambda: not self.service.worker_pids(), 30)


if __name__ == "__main__":
    unittest.main()
