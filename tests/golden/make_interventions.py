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
    Case("zero", {"kind": "zero"}, heads=[(0, 2), (1, 1)]),
)


class Hooks:
    """Changes z in front of every layer's W_O and keeps the masks."""

    def __init__(self, model: torch.nn.Module, case: Case) -> None:
        self.model, self.case = model, case
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
                z[:, head] = self.replacement(z[:, head], head)
            return (z.flatten(1).unsqueeze(0),)

        return hook

    def replacement(self, z: torch.Tensor, head: int) -> torch.Tensor:
        kind = self.case.intervention["kind"]
        if kind == "zero":
            return torch.zeros_like(z)
        if kind == "scale":
            return z * self.case.intervention["scale"]
        assert kind == "first_value"
        return self.values[0, head // (self.heads // self.kv_heads)].expand_as(z)

    def close(self) -> None:
        for handle in self.handles:
            handle.remove()


@torch.no_grad()
def run(model: torch.nn.Module, tokens: list[int], case: Case) -> dict[str, object]:
    hooks = Hooks(model, case)
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
        cases = []
        for case in CASES:
            answers = [{"prompt": p, **run(model, prompts[p], case)} for p in PROMPTS]
            cases.append({**vars(case), "answers": answers})
        out[name] = cases
    (HERE / "interventions.json").write_text(json.dumps(out) + "\n")


if __name__ == "__main__":
    main()
