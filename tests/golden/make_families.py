#!/usr/bin/env python3
"""Makes the tiny random checkpoints of the model families and what transformers' eager attention gives for them.

    make_families.py [NAME ...]      all of FAMILIES, or those named; run by hand, from any folder

Needs torch and transformers (made with the versions that each golden.json names); nobody needs them to build, test or
run the project. Independent of the engine: weights come from transformers' own modules, attention probabilities from
`output_attentions`, head outputs and values from hooks around the projections. Writes for every family
    tests/golden/tiny-<name>/config.json          in the spelling that checkpoints on the hub have
    tests/golden/tiny-<name>/model.safetensors    bfloat16, and exact in it
    tests/golden/tiny-<name>/golden.json          token ids, thresholds
    tests/golden/tiny-<name>/golden.safetensors   measurements and logits of the baseline and of two ablations
and with `paper` (or all) tests/golden/paper_models.json: the paper's 14 models in tiny form (see paper_models.py).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from families import FAMILIES, LENGTHS, VOCABULARY
from paper_models import PAPER_MODELS, TOKENS, deterministic_weights
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent
SHARES = [0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3]
MEASUREMENTS = ["first_weight", "entropy", "first_value", "value", "output", "last_output", "projected"]
SEES_FIRST_SHARE = 0.5
Mask = torch.Tensor  # [layer, head] bool


@dataclass
class Layout:
    """Where a family keeps what the hooks need."""

    layers: Callable[[Any], Any]
    values: Callable[[Any, Any], tuple[Any, Callable[[torch.Tensor], torch.Tensor]]]
    output: Callable[[Any], Any]
    transposed: bool = False


def separate(layer: Any, config: Any) -> tuple[Any, Callable[[torch.Tensor], torch.Tensor]]:
    return layer.self_attn.v_proj, lambda x: x.unflatten(-1, (-1, head_dim(config)))


def by_head(layer: Any, config: Any) -> tuple[Any, Callable[[torch.Tensor], torch.Tensor]]:
    dim = head_dim(config)
    return layer.attention.query_key_value, lambda x: x.unflatten(-1, (-1, 3 * dim))[..., 2 * dim :]


def stacked(layer: Any, config: Any) -> tuple[Any, Callable[[torch.Tensor], torch.Tensor]]:
    return layer.attn.c_attn, lambda x: x.chunk(3, -1)[2].unflatten(-1, (-1, head_dim(config)))


LAYOUTS = {
    "gpt_neox": Layout(lambda m: m.gpt_neox.layers, by_head, lambda layer: layer.attention.dense),
    "gpt2": Layout(lambda m: m.transformer.h, stacked, lambda layer: layer.attn.c_proj, transposed=True),
}
USUAL = Layout(lambda m: m.model.layers, separate, lambda layer: layer.self_attn.o_proj)


def head_dim(config: Any) -> int:
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


@dataclass
class Pass:
    """One forward pass of one prompt: z is zeroed before W_O where `decide` says so."""

    model: Any
    decide: Callable[[int, dict[str, torch.Tensor]], torch.Tensor] | None = None
    measured: dict[int, dict[str, torch.Tensor]] = field(default_factory=dict)
    masks: dict[int, torch.Tensor] = field(default_factory=dict)
    values: dict[int, torch.Tensor] = field(default_factory=dict)

    def run(self, tokens: list[int]) -> torch.Tensor:
        """Logits [token, vocabulary]; fills measured and masks."""
        config = self.model.config
        layout = LAYOUTS.get(config.model_type, USUAL)
        handles = []
        for index, layer in enumerate(layout.layers(self.model)):
            module, pick = layout.values(layer, config)
            handles.append(module.register_forward_hook(self._keep_values(index, pick)))
            handles.append(layout.output(layer).register_forward_pre_hook(self._change(index, layout.transposed)))
        with torch.no_grad():
            out = self.model(torch.tensor([tokens]), output_attentions=True, use_cache=False)
        for handle in handles:
            handle.remove()
        for index, probabilities in enumerate(out.attentions):
            self._of_weights(index, probabilities[0].double(), len(tokens))
        return out.logits[0].float()

    def _keep_values(self, index: int, pick: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., None]:
        def hook(_module: Any, _inputs: Any, output: torch.Tensor) -> None:
            self.values[index] = pick(output)[0].double()

        return hook

    def _change(self, index: int, transposed: bool) -> Callable[..., tuple[torch.Tensor]]:
        def hook(module: Any, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
            heads = self.model.config.num_attention_heads
            z = inputs[0][0].unflatten(-1, (heads, -1))  # [token, head, dim]
            weight = module.weight.t() if transposed else module.weight
            self.measured[index] = self._of_outputs(index, z.double(), weight.double(), heads)
            mask = torch.zeros(heads, dtype=torch.bool)
            if self.decide is not None:
                mask = self.decide(index, self.measured[index])
            self.masks[index] = mask
            return (z.masked_fill(mask[None, :, None], 0).flatten(1)[None],)

        return hook

    def _of_outputs(self, index: int, z: torch.Tensor, weight: torch.Tensor, heads: int) -> dict[str, torch.Tensor]:
        values = self.values[index]
        group = heads // values.shape[1]
        norms = values.norm(dim=-1).repeat_interleave(group, 1)
        parts = torch.einsum("thd,ohd->tho", z, weight.unflatten(1, (heads, -1)))
        return {
            "first_value": norms[0],
            "value": norms.mean(0),
            "output": z.norm(dim=-1).mean(0),
            "last_output": z[-1].norm(dim=-1),
            "projected": parts.norm(dim=-1).mean(0),
        }

    def _of_weights(self, index: int, p: torch.Tensor, tokens: int) -> None:
        window = window_of(self.model.config, index)
        seeing = tokens if window is None else min(tokens, window)
        first = p[:, :seeing, 0].mean(1)
        if window is not None:
            assert tokens <= window or p[:, window:, 0].max() == 0, "the window is not what transformers used"
        if seeing < SEES_FIRST_SHARE * tokens:
            first = torch.full_like(first, float("nan"))
        self.measured[index]["first_weight"] = first
        self.measured[index]["entropy"] = -torch.special.xlogy(p, p).sum(-1).mean(1)

    def table(self) -> torch.Tensor:
        """[measurement, layer, head]."""
        return torch.stack(
            [torch.stack([self.measured[i][m] for i in sorted(self.measured)]) for m in MEASUREMENTS]
        ).float()

    def mask(self) -> Mask:
        return torch.stack([self.masks[i] for i in sorted(self.masks)])


def window_of(config: Any, layer: int) -> int | None:
    """The window that a layer has, from the definition of its family."""
    window = getattr(config, "sliding_window", None)
    if window is None or config.model_type in ("llama", "olmo2", "gpt2", "gpt_neox"):
        return None
    if config.model_type == "mistral":
        return window
    if config.model_type in ("qwen2", "qwen3"):
        return window if config.use_sliding_window and layer >= config.max_window_layers else None
    pattern = {"gemma2": 2, "gemma3_text": getattr(config, "_sliding_window_pattern", 6)}[config.model_type]
    return window if (layer + 1) % pattern else None


def scores_of(table: torch.Tensor) -> dict[str, torch.Tensor]:
    """The scores whose thresholds are written, [layer, head] each, by the authors' names."""
    m = dict(zip(MEASUREMENTS, table, strict=True))
    return {
        "Dormant": m["first_weight"],
        "Entropy": m["entropy"],
        "HONOR": m["output"] / m["output"].mean(1, keepdim=True),
    }


def threshold(pool: torch.Tensor, share: float, above: bool) -> float:
    """Linear interpolation of (i / N, x_i) at the share, or at 1 - share."""
    x = pool[pool.isfinite()].sort().values.double()
    n = len(x)
    place = min(max((1 - share) if above else share, 1 / n), 1.0) * n - 1
    low = int(place)
    high = min(low + 1, n - 1)
    return float(x[low] + (place - low) * (x[high] - x[low]))


def widest_gap(pool: torch.Tensor, share: float) -> float:
    """A threshold near the share with no score close to it."""
    x = pool.sort().values
    at = int(share * len(x))
    gaps = x[at - 3 : at + 4].diff()
    i = at - 3 + int(gaps.argmax())
    return float((x[i] + x[i + 1]) / 2)


def random_weights(model: Any, seed: int) -> None:
    """Attention that is neither flat nor a spike, norms and biases that matter, all exact in bfloat16."""
    generator = torch.Generator().manual_seed(seed)
    plus_one = model.config.model_type.startswith("gemma")
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() == 1:
            is_norm = name.endswith("weight")
            value = 0.2 * noise + (1.0 if is_norm and not plus_one else 0.0)
        elif "embed_tokens" in name or "wte" in name or "embed_in" in name:
            value = noise / (parameter.shape[1] ** 0.5 if plus_one else 1.0)
        elif "wpe" in name:
            value = 0.5 * noise
        else:
            inputs = parameter.shape[0] if "c_" in name else parameter.shape[1]
            sharp = 1.3 if any(part in name for part in ("q_proj", "k_proj", "query_key_value", "c_attn")) else 1.0
            value = sharp * noise / inputs**0.5
        parameter.data = value.to(torch.bfloat16).float()


def build(folder: Path) -> Any:
    config = transformers.AutoConfig.from_pretrained(folder)
    # In float32 from the start: made in the config's own type, constants such as Gemma's factor would be rounded.
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
    return model.eval()


def make(name: str) -> None:
    spec = FAMILIES[name]
    folder = HERE / f"tiny-{name}"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(spec.config, indent=1) + "\n")
    model = build(folder)
    random_weights(model, spec.seed)
    tied = model.config.tie_word_embeddings
    if tied:
        model.tie_weights()
    skipped = {"lm_head.weight"} if tied else set()
    state = {
        spec.file_name(k): v.to(torch.bfloat16).contiguous() for k, v in model.state_dict().items() if k not in skipped
    }
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})

    generator = torch.Generator().manual_seed(spec.seed + 1)
    prompts = [torch.randint(VOCABULARY, (n,), generator=generator).tolist() for n in LENGTHS]
    passes = [Pass(model) for _ in prompts]
    logits = [p.run(tokens) for p, tokens in zip(passes, prompts, strict=True)]
    tables = torch.stack([p.table() for p in passes])  # [prompt, measurement, layer, head]
    pools = {alias: torch.stack([scores_of(t)[alias] for t in tables]) for alias in scores_of(tables[0])}
    thresholds = {
        alias: [threshold(pool.flatten(), share, alias == "Dormant") for share in SHARES]
        for alias, pool in pools.items()
    }
    tensors = {
        "measurements": tables,
        "last_logits": torch.stack([x[-1] for x in logits]),
        "all_logits_of_prompt_2": logits[2],
    }

    layers, heads = tables.shape[2:]
    fixed = torch.rand(layers, heads, generator=generator) < 0.3
    fixed[0, 1] = True
    limit = widest_gap(pools["HONOR"].flatten(), 0.2)

    def online(_layer: int, measured: dict[str, torch.Tensor]) -> torch.Tensor:
        return measured["output"] / measured["output"].mean() < limit

    for kind, decide in {"fixed": lambda layer, _measured: fixed[layer], "online": online}.items():
        passes = [Pass(model, decide) for _ in prompts]
        tensors[f"{kind}/last_logits"] = torch.stack([p.run(t)[-1] for p, t in zip(passes, prompts, strict=True)])
        tensors[f"{kind}/measurements"] = torch.stack([p.table() for p in passes])
        tensors[f"{kind}/mask"] = torch.stack([p.mask() for p in passes])
    save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "golden.safetensors")
    golden = {
        "token_ids": prompts,
        "shares": SHARES,
        "thresholds": thresholds,
        "online_threshold": limit,
        "transformers": transformers.__version__,
        "torch": torch.__version__.split("+")[0],
    }
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")
    for file in folder.iterdir():
        file.chmod(0o644)  # save_file keeps them to the user
    size = sum(f.stat().st_size for f in folder.iterdir())
    spread = tables[:, 1].nanmean().item(), tables[:, 0].nanmean().item()
    print(f"{name}: {size / 1000:.0f} kB, mean entropy {spread[0]:.2f}, mean first weight {spread[1]:.3f}")


def make_paper() -> None:
    out = []
    for name, config in PAPER_MODELS.items():
        folder = HERE / ".paper_model"
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config))
        model = build(folder)
        deterministic_weights(model)
        one = Pass(model)
        logits = one.run(TOKENS)[-1]
        out.append(
            {
                "name": name,
                "config": config,
                "last_logits": [round(float(x), 6) for x in logits],
                "measurements": [round(float(x), 6) for x in one.table().flatten()],
            }
        )
        (folder / "config.json").unlink()
        folder.rmdir()
    golden = {"transformers": transformers.__version__, "token_ids": TOKENS, "models": out}
    text = json.dumps(golden).replace('{"name"', '\n{"name"')
    (HERE / "paper_models.json").write_text(text + "\n")
    print(f"paper: {len(out)} models")


def main() -> None:
    torch.set_num_threads(1)
    names = sys.argv[1:] or [*FAMILIES, "paper"]
    for name in names:
        make_paper() if name == "paper" else make(name)


if __name__ == "__main__":
    main()
