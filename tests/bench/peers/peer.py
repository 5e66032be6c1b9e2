"""What the peers of the benchmarks have in common: commands in, timed answers out.

A peer is a long-lived process like engine_bench: one JSON command a line on standard input, one JSON answer a line on
standard output, so that run.py can take turns between them. Imported by the scripts beside it, which a Python with
torch and transformers runs.
"""

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable

import torch

Case = Callable[[dict], dict | None]


def parse_arguments(description: str | None, *, reference: bool = False) -> argparse.Namespace:
    """What every peer is told; sets torch up accordingly. `arguments.type` is the torch type."""
    parser = argparse.ArgumentParser(description=description)
    if reference:
        parser.add_argument("--reference", required=True, help="checkout of the authors' code")
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    arguments = parser.parse_args()
    arguments.type = getattr(torch, arguments.dtype)
    torch.set_num_threads(arguments.threads)
    torch.set_grad_enabled(False)
    return arguments


def timed(work: Callable[[], object]) -> dict:
    """Wall and processor seconds of one call, whatever device it runs on."""
    cpu = time.process_time()
    start = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}


def serve(cases: dict[str, Case]) -> None:
    """Answers commands until standard input ends. Whatever a library prints goes to standard error."""
    answers = sys.stdout
    sys.stdout = sys.stderr

    def answer(value: dict) -> None:
        print(json.dumps(value), file=answers, flush=True)

    answer({"ready": True})
    for line in sys.stdin:
        command = json.loads(line)
        try:
            if command["case"] == "memory":
                answer({"peak_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024})
            else:
                answer(cases[command["case"]](command) or {})
        except Exception as error:  # the other side says which case failed and goes on
            answer({"error": f"{type(error).__name__}: {error}"})
