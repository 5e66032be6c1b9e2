"""What the cases measure with: the engine and the peers as processes, and the prompts that they run.

Made by run.py. Peers and prompts come into being when they are first asked for; what is not there raises Skip.
"""

from __future__ import annotations

import argparse
import json
from functools import cached_property
from pathlib import Path

from measure import Cost, Side, Skip

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
BIN = ROOT / "build" / "release" / "bin"
TASKS = ROOT / "tasks"

# All but chance.
ALL_SCORES = [
    "first_token_weight", "first_token_weight_ln", "entropy", "entropy_ln", "first_value_norm", "first_value_norm_ln",
    "value_norm", "value_norm_ln", "output_norm", "output_norm_ln", "last_output_norm", "last_output_norm_ln",
    "last_output_norm_hn", "projected_norm", "projected_norm_ln",
]  # fmt: skip
FRACTION = 0.15  # of heads that rules of the benchmarks make inactive


class Bench:
    """What the cases measure with. Sides start when they are first asked."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.model: Path = arguments.model.resolve()
        self.threads: int = arguments.threads
        self.data: Path = arguments.data
        self.engine = self.new_engine()
        self._tasks: dict[tuple, dict] = {}

    def new_engine(self, *flags: str) -> Side:
        return Side("the engine", [str(BIN / "engine_bench"), *self._common_flags(), *flags])

    def _common_flags(self) -> list[str]:
        given = self.arguments
        where = ["--device", given.device, "--dtype", given.dtype]
        return ["--model", str(self.model), "--threads", str(self.threads), *where]

    @cached_property
    def transformers(self) -> Side:
        return self._peer("transformers", "transformers_peer.py")

    @cached_property
    def authors(self) -> Side:
        reference = self.arguments.reference
        if reference is None:
            raise Skip("needs --reference")
        return self._peer("the authors' code", "authors_peer.py", "--reference", str(reference.resolve()))

    def _peer(self, name: str, script: str, *flags: str) -> Side:
        if self.arguments.peers is None:
            raise Skip("needs --peers")
        python = self.arguments.peers / "bin" / "python"
        return Side(name, [str(python), str(HERE / "peers" / script), *self._common_flags(), *flags], peer=True)

    def _task(self, task: str, subtask: str | None, documents: int, fewshot: int) -> dict:
        if not (self.data / task).is_dir():
            raise Skip(f"no data set in {self.data / task} (HEADCOUNT_SHARED)")
        key = (task, subtask, documents, fewshot)
        if key not in self._tasks:
            fields = {"task": task, "documents": documents, "fewshot": fewshot}
            if subtask is not None:
                fields["subtask"] = subtask
            folders = {"data": str(self.data / task), "task_folder": str(TASKS)}
            self._tasks[key] = self.engine.ask("prompts", **fields, **folders)
        return self._tasks[key]

    def task_prompts(self, task: str, subtask: str | None, documents: int, fewshot: int) -> list[list[int]]:
        return self._task(task, subtask, documents, fewshot)["prompts"]

    def questions(self, subject: str = "high_school_geography", documents: int = 25) -> list[list[int]]:
        """5-shot questions of one MMLU subject, as token ids."""
        return self.task_prompts("mmlu", subject, documents, 5)

    def timed_questions(self) -> list[list[int]]:
        """Those of them on which slow passes are timed: spread over the file, two when in a hurry."""
        return self.questions()[::12][:2] if self.arguments.quick else self.questions()[::5]

    @cached_property
    def _text(self) -> dict:
        """What prompts are cut from: those questions; without the data set the demo's own."""
        try:
            return self._task("mmlu", "high_school_geography", 25, 5)
        except Skip:
            everyday = {"task": "everyday", "documents": 0, "fewshot": 0}
            return self.engine.ask("prompts", **everyday, data=str(TASKS / "data" / "everyday"), task_folder=str(TASKS))

    @cached_property
    def _targets(self) -> list[int]:
        return self._text["targets"][:4]

    def prompt(self, length: int) -> list[int]:
        """One prompt of real text: questions one after the other, over again where they do not suffice, cut."""
        text = [token for question in self._text["prompts"] for token in question]
        return (text * (length // len(text) + 1))[:length]

    def arithmetic_prompt(self) -> list[int]:
        """A GSM8K question after five worked ones, about 700 tokens."""
        folder = self.data / "gsm8k"
        if not folder.is_dir():
            raise Skip(f"no data set in {folder} (HEADCOUNT_SHARED)")

        def rows(split: str, count: int) -> list[dict]:
            with (folder / f"{split}.jsonl").open() as lines:
                return [json.loads(line) for line, _ in zip(lines, range(count), strict=False)]

        worked = [f"Question: {row['question']}\nAnswer: {row['answer']}\n\n" for row in rows("train", 5)]
        text = "".join(worked) + f"Question: {rows('test', 1)[0]['question']}\nAnswer:"
        return self.engine.ask("encode", text=text)["tokens"]

    def pass_(self, case: str, prompts: list[list[int]], engine: Side | None = None, **fields: object) -> Cost:
        return (engine or self.engine).cost(case, prompts=prompts, targets=self._targets, **fields)

    @cached_property
    def _thresholds(self) -> dict[str, float]:
        fields = {"prompts": self._text["prompts"][:25], "targets": self._targets, "scores": ALL_SCORES}
        answer = self.engine.ask("thresholds", fractions=[FRACTION], **fields)["thresholds"]
        return {score: values[0] for score, values in answer.items()}

    def rules(self, *scores: str) -> list[dict]:
        """One rule a score, at the threshold that makes FRACTION of the questions' heads inactive."""
        return [{"score": score, "threshold": self._thresholds[score]} for score in scores]

    def close(self) -> None:
        for side in (self.engine, *(self.__dict__.get(name) for name in ("transformers", "authors"))):
            if side is not None:
                side.close()
