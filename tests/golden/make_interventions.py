"""Golden values of interventions on the tiny models, from transformers with hooks and nothing of this project.

Writes tests/golden/interventions.json, which tests/worker/engine/golden_interventions_test.cc reads. Run by hand when a
case is added (users do not need it):

    python -m venv /tmp/golden && /tmp/golden/bin/pip install torch transformers==4.48.2
    /tmp/golden/bin/python tests/golden/make_interventions.py

A hook in front of each o_proj sees the heads' outputs z, decides which heads are inactive (a fixed list, or an output
norm over the layer's mean below a threshold, computed from that very z) and puts something else in their place.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

HERE = Path(__file__).resolve().parent
MODELS = ("tiny-llama", "tiny-llama3", "tiny-qwen2", "tiny-olmo2")
PROMPTS = (1, 3, 5)
LOGITS = 64  # of the last position, the first so many tokens


@dataclass
class Case:
    name: str
    intervention: dict[str, float | str]
    heads: list[tuple[int, int]] = field(default_factory=list)
    threshold: float | None = None  # of the output norm over the layer's mean


CASES = (
    Case("scale", {"kind": "scale", "scale": -0.5}, heads=[(0, 1), (1, 0), (1, 3)]),
    Case("scale_up", {"kind": "scale", "scale": 1.75}, threshold=0.85),
    Case("first_value", {"kind": "first_value"}, heads=[(0, 0), (0, 3), (1, 2)]),
    Case("first_value_online", {"kind": "first_value"}, threshold=0.95),
    Case("mean", {"kind": "mean"}, heads=[(0, 0), (1, 1), (1, 3)]),
    Case("mean_online", {"kind": "mean"}, threshold=0.9),
    Case("zero", {"kind": "zero"}, heads=[(0, 2), (1, 1)]),
)


@dataclass
class Means:
    """Mean outputs of every layer's heads, [heads, head_dim] each, over the unchanged runs of all prompts."""

    rest: list[torch.Tensor]  # over tokens i >= 1
    first: list[torch.Tensor]  # at position 0


class Hooks:
    """Changes z in front of every layer's W_O and keeps the masks."""

    def __init__(self, model: torch.nn.Module, case: Case, means: Means) -> None:
        self.model, self.case, self.means = model, case, means
        config = model.config
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.masks: list[list[int]] = []
        self.values: torch.Tensor | None = None
        self.handles = []
        for layer, block in enumerate(model.model.layers):
            attention = block.self_attn
            self.handles.append(attention.v_proj.register_forward_hook(self.keep_values))
            self.handles.append(attention.o_proj.register_forward_pre_hook(self.change(layer)))

    def keep_values(self, _module: object, _inputs: object, output: torch.Tensor) -> None:
        self.values = output[0].unflatten(-1, (self.kv_heads, -1))

    def change(self, layer: int):
        def hook(_module: object, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            z = inputs[0][0].unflatten(-1, (self.heads, -1)).clone()  # [tokens, heads, head_dim]
            if self.case.threshold is None:
                mask = torch.tensor([(layer, head) in self.case.heads for head in range(self.heads)])
            else:
                norms = z.norm(dim=-1).mean(0)
                mask = norms / norms.mean() < self.case.threshold
            self.masks.append(mask.int().tolist())
            for head in mask.nonzero().flatten().tolist():
                z[:, head] = self.replacement(z[:, head], layer, head)
            return (z.flatten(1).unsqueeze(0),)

        return hook

    def replacement(self, z: torch.Tensor, layer: int, head: int) -> torch.Tensor:
        kind = self.case.intervention["kind"]
        if kind == "zero":
            return torch.zeros_like(z)
        if kind == "scale":
            return z * self.case.intervention["scale"]
        if kind == "mean":
            mean = self.means.rest[layer][head].expand_as(z).clone()
            mean[0] = self.means.first[layer][head]
            return mean
        assert kind == "first_value"
        return self.values[0, head // (self.heads // self.kv_heads)].expand_as(z)

    def close(self) -> None:
        for handle in self.handles:
            handle.remove()


@torch.no_grad()
def mean_outputs(model: torch.nn.Module, prompts: list[list[int]]) -> Means:
    """Tokens weigh equally, whichever prompt they are of."""
    outputs: list[list[torch.Tensor]] = [[] for _ in model.model.layers]
    handles = [
        block.self_attn.o_proj.register_forward_pre_hook(
            lambda _module, inputs, to=outputs[layer]: to.append(
                inputs[0][0].unflatten(-1, (model.config.num_attention_heads, -1))
            )
        )
        for layer, block in enumerate(model.model.layers)
    ]
    for tokens in prompts:
        model(torch.tensor([tokens]))
    for handle in handles:
        handle.remove()
    return Means(
        rest=[torch.cat([z[1:] for z in layer]).mean(0) for layer in outputs],
        first=[torch.stack([z[0] for z in layer]).mean(0) for layer in outputs],
    )


@torch.no_grad()
def run(model: torch.nn.Module, tokens: list[int], case: Case, means: Means) -> dict[str, object]:
    hooks = Hooks(model, case, means)
    logits = model(torch.tensor([tokens])).logits[0, -1, :LOGITS]
    hooks.close()
    return {"mask": hooks.masks, "logits": [round(x, 6) for x in logits.tolist()]}


def main() -> None:
    out: dict[str, object] = {}
    for name in MODELS:
        model = AutoModelForCausalLM.from_pretrained(
            HERE / name, torch_dtype=torch.float32, attn_implementation="eager"
        ).eval()
        prompts = json.loads((HERE / name / "golden.json").read_text())["token_ids"]
        means = mean_outputs(model, prompts)
        cases = []
        for case in CASES:
            answers = [{"prompt": p, **run(model, prompts[p], case, means)} for p in PROMPTS]
            cases.append({**vars(case), "answers": answers})
        out[name] = cases
    (HERE / "interventions.json").write_text(json.dumps(out) + "\n")


if __name__ == "__main__":
    main()
