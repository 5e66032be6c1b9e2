"""The rows that go through the service: whole sweeps, what the service adds to the engine, and scaling with samples.

Each starts a headcountd with one worker of its own, in an empty folder, so that no result of an earlier row is reused.
Jobs are submitted with the command line client, as a user would.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import ALL_SCORES, Bench
from engine_cases import sweep_cost, tokens
from measure import Cost, Ratios, progress, ratios, stopwatch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from harness import BUILD, Service, service

HOURS = 3 * 3600.0
LONG_SCORES = ["first_token_weight", "entropy", "value_norm", "output_norm_ln"]


@contextmanager
def running(bench: Bench, **config: object) -> Iterator[Service]:
    """A service that has the model loaded."""
    with service(
        [bench.model.parent],
        {"mmlu": bench.data / "mmlu", "piqa": bench.data / "piqa"},
        workers=[{"device": "cpu", "threads": bench.threads}],
        **config,
    ) as server:
        server.finish(server.submit("score", *workload(bench, "--task=everyday", "--limit=1")), HOURS)
        yield server


def workload(bench: Bench, *flags: str) -> list[str]:
    return [f"--model={bench.model.name}", "--dtype=float32", *flags]


def processor_seconds(server: Service) -> float:
    """Of the server and its workers so far; the client is the user's."""
    assert server.process is not None
    ticks = 0
    for pid in [server.process.pid, *server.worker_pids()]:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def run_job(server: Service, *args: str) -> Cost:
    """Wall time of one job, from submitting it to being told of its end, and processor time of the service."""
    before = processor_seconds(server)
    elapsed = stopwatch()
    server.finish(server.submit(*args), HOURS)
    return Cost(elapsed(), processor_seconds(server) - before)


def sweep_speedup_mmlu(bench: Bench) -> Ratios:
    return sweep_speedup(bench, "high_school_geography", 25, ALL_SCORES)


def sweep_speedup_long(bench: Bench) -> Ratios:
    return sweep_speedup(bench, "high_school_european_history", 8, LONG_SCORES)


def sweep_speedup(bench: Bench, subject: str, documents: int, scores: list[str]) -> Ratios:
    questions = bench.questions(subject, documents)
    before, passes, timed = sweep_cost(bench, questions, scores)
    progress(f"    theirs: {passes} passes, {timed} timed: {before.seconds:.0f} s")
    job = workload(bench, "--task=mmlu", f"--subtask={subject}", f"--limit={documents}", "--num-fewshot=5")
    with running(bench) as server:
        ours = run_job(server, "sweep", *job, f"--scores={','.join([*scores, 'random'])}")
    progress(f"    ours: {ours.seconds:.0f} s")
    after, _, _ = sweep_cost(bench, questions, scores)
    progress(f"    theirs again: {after.seconds:.0f} s")
    result = ratios([(before, ours), (after, ours)], ("theirs", "ours"))
    result.detail.update(
        questions=len(questions), tokens=tokens(questions), theirs_passes=passes, theirs_timed=2 * timed
    )
    return result


def service_overhead(bench: Bench) -> Ratios:
    """The same sweep with the real engine and with one that computes nothing: what is left is the service."""
    job = workload(
        bench, "--task=mmlu", "--subtask=high_school_geography", "--limit=25", "--num-fewshot=5",
        "--scores=output_norm_ln",
    )  # fmt: skip
    with running(bench) as server:
        whole = run_job(server, "sweep", *job)
    progress(f"    with the engine: {whole.seconds:.1f} s, {whole.cpu_seconds:.2f} s of processor time")
    fake = BUILD / "bin" / "headcount-worker-fake"
    outside = []
    for _ in range(3):
        with running(bench, worker_program=str(fake)) as server:
            outside.append(run_job(server, "sweep", *job).cpu_seconds)
        progress(f"    without: {outside[-1]:.2f} s of processor time")
    values = [seconds / (whole.cpu_seconds - seconds) for seconds in outside]
    return Ratios(values, values, {"whole_cpu_seconds": whole.cpu_seconds, "outside_cpu_seconds": sorted(outside)[1]})


def scaling(bench: Bench) -> Ratios:
    """Seconds a token of PIQA questions, two samples each, so that other lengths do not count as other speed."""
    done = []
    for _ in range(3):
        with running(bench) as server:
            costs = []
            for documents in (100, 10):
                cost = run_job(server, "score", *workload(bench, "--task=piqa", f"--limit={documents}"))
                progress(f"    {2 * documents} samples: {cost.seconds:.2f} s")
                costs.append(cost.times(1 / tokens(bench.task_prompts("piqa", None, documents, 0))))
            done.append((costs[0], costs[1]))
    return ratios(done, ("samples_200_token", "samples_20_token"))
