"""Starts a real headcountd with real workers in a folder of its own and talks to it through the command line client.

Used by the test_*.py files beside it, which run.py runs under ctest. Nothing sleeps for a fixed time: every wait is for
a condition, with a deadline.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("HEADCOUNT_BUILD", ROOT / "build" / "release"))
SHARED = Path(os.environ.get("HEADCOUNT_SHARED", ROOT / ".." / "shared")).resolve()
PREFIX = Path(os.environ.get("HEADCOUNT_PREFIX", Path.home() / ".cache" / "headcount"))
SMOLLM2 = PREFIX / "models" / "SmolLM2-135M-Instruct"
QWEN = PREFIX / "models" / "Qwen2.5-Coder-0.5B-Instruct"
FULL = os.environ.get("HEADCOUNT_FULL") == "1"
DEADLINE = 120.0

CHAT_TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def wait_for(what: str, condition: Callable[[], Any], deadline: float = DEADLINE) -> Any:
    """The first true value of `condition`; fails naming `what` when the deadline passes."""
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {deadline:.0f} s for: {what}")
        time.sleep(0.02)


def byte_tokenizer() -> dict[str, Any]:
    """A byte-level tokenizer of 256 tokens without merges, in the Hugging Face format: one token a UTF-8 byte."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    names = {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {name: byte for byte, name in sorted(names.items())},
            "merges": [],
        },
    }


def make_tiny_model(folder: Path, golden: str = "tiny-llama", bos: str | None = None) -> None:
    """A tiny random checkpoint with a tokenizer, so that the whole service runs in seconds anywhere."""
    folder.mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        shutil.copyfile(ROOT / "tests" / "golden" / golden / name, folder / name)
    (folder / "tokenizer.json").write_text(json.dumps(byte_tokenizer()))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": CHAT_TEMPLATE, "bos_token": bos})
    )


class CliError(Exception):
    """A command that ended with an exit code other than 0."""

    def __init__(self, code: int, output: str, errors: str) -> None:
        super().__init__(f"exit code {code}\n{output}\n{errors}")
        self.code, self.output, self.errors = code, output, errors

    @property
    def error(self) -> dict[str, Any]:
        """The error object of --json."""
        return json.loads(self.output.splitlines()[-1])["error"]


class Service:
    """One headcountd. Start it with `with service(...)`, which also cleans up."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.config = folder / "headcount.yaml"
        self.config.write_text(json.dumps({"state_dir": str(self.state), **config}))  # JSON is YAML
        self.process: subprocess.Popen[bytes] | None = None
        self.ports: dict[str, str] = {}
        self.log = folder / "headcountd.log"

    def start(self) -> None:
        endpoints = self.state / "endpoints.json"
        endpoints.unlink(missing_ok=True)
        # After a restart the same ports are asked for, so that clients and workers find the server again.
        listen = [
            f"--{key.replace('_', '-')}={self.ports.get(key, '127.0.0.1:0')}"
            for key in ("listen", "worker_listen", "metrics_listen")
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [BUILD / "bin" / "headcountd", "--config", self.config, *listen], stdout=log, stderr=log
            )

        def up() -> Any:
            assert self.process is not None
            if self.process.poll() is not None:
                raise AssertionError(
                    f"headcountd ended with {self.process.returncode}:\n{self.log.read_text()[-4000:]}"
                )
            return endpoints.exists() and json.loads(endpoints.read_text())

        self.ports = wait_for("headcountd to listen", up)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(timeout=40)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError("headcountd did not stop within 40 s of SIGTERM") from None

    def command(self, *args: str) -> list[str]:
        return [str(BUILD / "bin" / "headcount"), "--server", self.ports["listen"], "--color", "never", *args]

    def cli(self, *args: str, deadline: float = DEADLINE) -> str:
        """Standard output of `headcount ARGS`. Raises CliError unless it exits with 0."""
        done = subprocess.run(self.command(*args), capture_output=True, text=True, timeout=deadline, check=False)
        if done.returncode != 0:
            raise CliError(done.returncode, done.stdout, done.stderr)
        return done.stdout

    def cli_any(self, *args: str) -> int:
        """The exit code of `headcount ARGS`."""
        return subprocess.run(self.command(*args), capture_output=True, timeout=DEADLINE, check=False).returncode

    def json(self, *args: str, deadline: float = DEADLINE) -> Any:
        """The one JSON object that `headcount --json ARGS` prints."""
        return json.loads(self.cli("--json", *args, deadline=deadline))

    def lines(self, *args: str, deadline: float = DEADLINE) -> list[Any]:
        """All JSON objects that it prints."""
        return [json.loads(line) for line in self.cli("--json", *args, deadline=deadline).splitlines()]

    def refused(self, *args: str) -> CliError:
        """The error of a command that must fail."""
        try:
            out = self.cli("--json", *args)
        except CliError as error:
            return error
        raise AssertionError(f"headcount {' '.join(args)} was not refused: {out}")

    def submit(self, *args: str) -> str:
        """Submits a job; its name."""
        return self.json("submit", *args)["name"]

    def finish(self, job: str, deadline: float = DEADLINE) -> dict[str, Any]:
        """Waits for a job's end; the job. Fails unless it SUCCEEDED."""
        self.cli("--json", "watch", job, "--quiet", deadline=deadline)
        ended = self.json("show", job)
        assert ended["state"] == "SUCCEEDED", ended
        return ended

    def worker_pids(self) -> list[int]:
        """Processes of this service's workers, found by the state folder on their command line."""
        pids = []
        for proc in Path("/proc").iterdir():
            if not proc.name.isdigit():
                continue
            try:
                command = (proc / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if "headcount-worker" in command.split("\0")[0] and str(self.folder) in command:
                pids.append(int(proc.name))
        return pids

    def kill_worker(self) -> None:
        pid = wait_for("a worker to kill", self.worker_pids)[0]
        os.kill(pid, signal.SIGKILL)


@contextmanager
def service(
    model_roots: list[Path] | None = None,
    data: dict[str, Path] | None = None,
    **config: Any,
) -> Iterator[Service]:
    """A running service with one CPU worker. Without `model_roots` its models are tiny and random: tiny, tiny-qwen2."""
    folder = Path(tempfile.mkdtemp(prefix="headcount-e2e-"))
    roots = model_roots
    if roots is None:
        make_tiny_model(folder / "models" / "tiny")
        make_tiny_model(folder / "models" / "tiny-qwen2", "tiny-qwen2", bos="<")
        roots = [folder / "models"]
    server = Service(
        folder,
        {
            "model_roots": [str(r) for r in roots],
            "data": {name: str(path) for name, path in (data or {}).items()},
            "workers": [{"device": "cpu", "threads": 2}],
            **config,
        },
    )
    failed = True
    try:
        server.start()
        yield server
        server.stop()
        failed = False
    finally:
        if server.process is not None and server.process.poll() is None:
            server.kill()
        for pid in server.worker_pids():
            os.kill(pid, signal.SIGKILL)
        if failed:
            for log in [server.log, *sorted((server.state / "logs").glob("*"))]:
                print(f"--- {log}\n{log.read_text(errors='replace')[-3000:]}")
        shutil.rmtree(folder, ignore_errors=True)
