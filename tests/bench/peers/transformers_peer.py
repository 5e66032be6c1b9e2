"""Transformers as the other side of a comparison: the plain pass, and a user's own hooks.

`plain` is the forward pass with scaled dot-product attention and logits at the last position, the fastest that
transformers does; `hooks` what someone would write to get the
seven measurements of every head: one eager pass with output_attentions and hooks on v_proj and o_proj. Run by run.py.
"""

import torch
from peer import parse_arguments, serve, timed
from transformers import AutoModelForCausalLM


class HookedModel:
    """An eager model whose hooks keep the values and the inputs of W_O of every layer."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.values: list[torch.Tensor] = []
        self.outputs: list[torch.Tensor] = []
        for layer in model.model.layers:
            layer.self_attn.v_proj.register_forward_hook(lambda _m, _i, out: self.values.append(out))
            layer.self_attn.o_proj.register_forward_pre_hook(lambda _m, inputs: self.outputs.append(inputs[0]))

    def measure(self, ids: torch.Tensor) -> torch.Tensor:
        """[layer][measurement][head] of one prompt, from one pass."""
        self.values.clear()
        self.outputs.clear()
        attentions = self.model(ids, output_attentions=True).attentions
        config = self.model.config
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
        result = []
        for layer, weights, value, output in zip(
            self.model.model.layers, attentions, self.values, self.outputs, strict=True
        ):
            p = weights[0]  # head, query, key
            tokens = p.shape[-1]
            v = value[0].view(tokens, kv_heads, -1).transpose(0, 1).norm(dim=-1).repeat_interleave(heads // kv_heads, 0)
            z = output[0].view(tokens, heads, -1).transpose(0, 1)
            w = layer.self_attn.o_proj.weight.view(config.hidden_size, heads, -1).permute(1, 2, 0)
            norm = z.norm(dim=-1)
            result.append(
                torch.stack(
                    [
                        p[:, :, 0].mean(-1),
                        -(p * (p + 1e-12).log()).sum(-1).mean(-1),
                        v[:, 0],
                        v.mean(-1),
                        norm.mean(-1),
                        norm[:, -1],
                        (z @ w).norm(dim=-1).mean(-1),
                    ]
                )
            )
        return torch.stack(result)


def main() -> None:
    arguments = parse_arguments(__doc__)

    def load(attention: str) -> torch.nn.Module:
        model = AutoModelForCausalLM.from_pretrained(
            arguments.model, torch_dtype=arguments.type, attn_implementation=attention
        )
        return model.eval().to(arguments.device)

    sdpa = load("sdpa")
    hooked = HookedModel(load("eager"))

    def each(command: dict, run) -> dict:
        prompts = [torch.tensor([ids], device=arguments.device) for ids in command["prompts"]]
        return timed(lambda: [run(ids) for ids in prompts])

    serve(
        {
            "plain": lambda command: each(command, lambda ids: sdpa(ids, use_cache=False, num_logits_to_keep=1)),
            "hooks": lambda command: each(command, hooked.measure),
        }
    )


if __name__ == "__main__":
    main()
