#!/usr/bin/env python3
"""Gets the paper's four data sets from the Hugging Face hub into a data folder, in the layout that tasks/*.yaml read.

Run it with the Python that deploy/setup.sh has made (it has pyarrow), on a machine with internet:

    $(deploy/setup.sh --print-prefix)/venv/bin/python deploy/fetch_data.py ~/data
    build/release/bin/headcountd --data mmlu=$HOME/data/mmlu --data piqa=$HOME/data/piqa ...

The hub keeps every data set as Parquet beside what its owner uploaded; those files are read, checked for their number
of rows, and written as MMLU's own CSV or as JSON lines. A file appears whole or not at all. SHA256SUMS in each folder
has the digest of every file (`sha256sum -c SHA256SUMS` checks them), and a second run gets only what is missing or
changed. The service itself never downloads anything.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet

Row = dict[str, Any]
ATTEMPTS = 4


class FetchError(Exception):
    """What the user reads when a data set cannot be had."""


def json_lines(*columns: str) -> Callable[[Iterable[Row]], str]:
    """Rows as one JSON object a line, these columns of each."""

    def write(rows: Iterable[Row]) -> str:
        return "".join(json.dumps({c: row[c] for c in columns}, ensure_ascii=False) + "\n" for row in rows)

    return write


def mmlu_csv(rows: Iterable[Row]) -> str:
    """Rows as MMLU's authors write them: question, four choices and the letter of the right one, without a header."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in rows:
        writer.writerow([row["question"], *row["choices"], "ABCD"[row["answer"]]])
    return out.getvalue()


@dataclass(frozen=True)
class DataFile:
    """A split, by its name on the hub, and the file that it becomes; {config} is the configuration's name."""

    split: str
    path: str
    rows: int  # of all configurations together


@dataclass(frozen=True)
class DataSet:
    repository: str
    config: str | None  # one configuration; None: each but those in `without`, as MMLU has one for each subject
    files: tuple[DataFile, ...]
    write: Callable[[Iterable[Row]], str]
    without: tuple[str, ...] = ()


DATA_SETS = {
    "mmlu": DataSet(
        "cais/mmlu",
        None,
        (
            DataFile("test", "test/{config}_test.csv", 14042),
            DataFile("dev", "dev/{config}_dev.csv", 285),
        ),
        mmlu_csv,
        without=("all", "auxiliary_train"),
    ),
    "piqa": DataSet(
        "ybisk/piqa",
        "plain_text",
        (DataFile("validation", "valid.jsonl", 1838), DataFile("train", "train.jsonl", 16113)),
        json_lines("goal", "sol1", "sol2", "label"),
    ),
    "winogrande": DataSet(
        "allenai/winogrande",
        "winogrande_xl",
        (DataFile("validation", "dev.jsonl", 1267), DataFile("train", "train_xl.jsonl", 40398)),
        json_lines("sentence", "option1", "option2", "answer"),
    ),
    "gsm8k": DataSet(
        "openai/gsm8k",
        "main",
        (DataFile("test", "test.jsonl", 1319), DataFile("train", "train.jsonl", 7473)),
        json_lines("question", "answer"),
    ),
}


def get(url: str, pause: float = 1.0) -> bytes:
    """The body at `url`; what may pass is tried again, up to ATTEMPTS times."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code != 429:
                raise FetchError(f"{url}: {error.code} {error.reason}") from error
            failure: Exception = error
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            failure = error
        if attempt < ATTEMPTS:
            time.sleep(pause * 2**attempt)
    raise FetchError(f"{url}: {failure} ({ATTEMPTS} tries)")


def parquet_rows(urls: list[str]) -> list[Row]:
    """The rows of a split's Parquet files, in their order."""
    rows: list[Row] = []
    for url in urls:
        rows += pyarrow.parquet.read_table(io.BytesIO(get(url))).to_pylist()
    return rows


def digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def read_digests(folder: Path) -> dict[str, str]:
    """What SHA256SUMS says: digest by path; empty where there is none."""
    sums = folder / "SHA256SUMS"
    if not sums.exists():
        return {}
    lines = [line.split("  ", 1) for line in sums.read_text().splitlines() if "  " in line]
    return {path: value for value, path in lines}


def write_whole(path: Path, content: bytes) -> None:
    """Puts a file in place in one step, so that a run that is killed leaves no half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    os.replace(part, path)


def unchanged(folder: Path, path: str, digests: dict[str, str]) -> bool:
    target = folder / path
    return path in digests and target.is_file() and digest(target.read_bytes()) == digests[path]


def fetch(name: str, data: DataSet, folder: Path, hub: str, any_size: bool) -> None:
    """Gets one data set. Nothing of a split is written before all of its rows are there and counted."""
    index = json.loads(get(f"{hub}/api/datasets/{urllib.parse.quote(data.repository)}/parquet"))
    configs = [data.config] if data.config else sorted(set(index) - set(data.without))
    digests = read_digests(folder)
    for file in data.files:
        paths = {config: file.path.format(config=config) for config in configs}
        if all(unchanged(folder, path, digests) for path in paths.values()):
            print(f"{name}: {file.split} is there", flush=True)
            continue
        contents: dict[str, bytes] = {}
        count = 0
        for number, config in enumerate(configs, start=1):
            urls = index.get(config, {}).get(file.split)
            if not urls:
                raise FetchError(f"{data.repository} has no split {file.split} of {config} on {hub}")
            rows = parquet_rows(urls)
            count += len(rows)
            try:
                contents[paths[config]] = data.write(rows).encode()
            except (KeyError, IndexError, TypeError) as error:
                raise FetchError(
                    f"{data.repository}, {config}, {file.split}: other columns than expected: {error}"
                ) from error
            print(f"{name}: {file.split} {number} of {len(configs)}, {count} rows", flush=True)
        if count != file.rows and not any_size:
            raise FetchError(
                f"{data.repository}, {file.split}: {count} rows where {file.rows} are expected; results would not "
                "compare with published ones (--any-size takes it as it is)"
            )
        for path, content in contents.items():
            write_whole(folder / path, content)
            digests[path] = digest(content)
        sums = "".join(f"{value}  {path}\n" for path, value in sorted(digests.items()))
        write_whole(folder / "SHA256SUMS", sums.encode())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="data folder; each data set gets a folder in it")
    parser.add_argument("--task", action="append", choices=sorted(DATA_SETS), help="only this one; may be repeated")
    parser.add_argument(
        "--hub",
        default=os.environ.get("HF_ENDPOINT", "https://huggingface.co"),
        help="address of the hub or a mirror (default: HF_ENDPOINT, or https://huggingface.co)",
    )
    parser.add_argument("--any-size", action="store_true", help="take a split whose number of rows is another")
    flags = parser.parse_args()
    names = flags.task or list(DATA_SETS)
    try:
        for name in names:
            fetch(name, DATA_SETS[name], flags.folder / name, flags.hub.rstrip("/"), flags.any_size)
    except (FetchError, OSError, ValueError) as error:
        print(f"fetch_data.py: {error}", file=sys.stderr)
        return 1
    print("start the server with: " + " ".join(f"--data {name}={(flags.folder / name).resolve()}" for name in names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
