"""The authors' own code as the other side of a comparison, one prompt a pass, as it runs them.

Their patching functions are imported from the checkout that the user names; nothing of theirs is kept here. The model
is patched and loaded once with one thing tracked; what is tracked afterwards is set on the patched layers,
so that no pass pays for loading the model (theirs do). Scores and thresholds are named as headcount names them.

`record` is a recording pass of one score or, with `scores`, one of each; `ablate` a pass that zeroes heads under
`rules` (one pass a rule and prompt); `unpatched` the same model with nothing tracked. Run by run.py.
"""

import sys
import warnings
from pathlib import Path

import torch
from peer import parse_arguments, serve, timed
from transformers import AutoModelForCausalLM

# headcount's score -> their class.
HEAD_TYPES = {
    "first_token_weight": "DormantHeads",
    "first_token_weight_ln": "NormalizedDormantHeads",
    "entropy": "EntropyHeads",
    "entropy_ln": "NormalizedEntropyHeads",
    "first_value_norm": "ValueVectorMagnitudeFirstToken",
    "first_value_norm_ln": "ValueVectorMagnitudeNormalizedFirstToken",
    "value_norm": "ValueVectorAvgMagnitude",
    "value_norm_ln": "ValueVectorAvgNormalizedMagnitude",
    "output_norm": "UnnormalizedHonorHeads",
    "output_norm_ln": "HonorHeads",
    "last_output_norm": "HeadOutputMagnitudeLastToken",
    "last_output_norm_ln": "HeadOutputMagnitudeNormalizedLastToken",
    "last_output_norm_hn": "HeadOutputMagnitudeNormalizedHeadLastToken",
    "projected_norm": "FullHeadOutput",
    "projected_norm_ln": "FullHeadOutputNormalized",
    "random": "RandomHeads",
}


class PatchedModel:
    """Their patched model, and the switches that their patching sets on every attention layer."""

    def __init__(self, reference: str, folder: str, device: str, dtype: torch.dtype) -> None:
        sys.path.insert(0, reference)
        import monkey_patch_head_types
        import monkey_patch_utils

        self.head_types = monkey_patch_head_types
        # Their code knows a family by a substring of the published name.
        family = "Qwen2.5" if "qwen" in Path(folder).name.lower() else "Llama-3.1"
        monkey_patch_utils.patch_model(family, track_head_type=self._head_type("random", 0.0), record_head_scores=True)
        self.model = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=dtype, attn_implementation="eager")
        self.model.eval().to(device)
        layers, attention = monkey_patch_utils.get_model_accessors(self.model)
        self.attentions = [attention(layer) for layer in layers(self.model)]

    def _head_type(self, score: str, threshold: float) -> object:
        return getattr(self.head_types, HEAD_TYPES[score])(threshold)

    def track(self, score: str | None, threshold: float = 0.0, *, zero: bool = False) -> None:
        """None: nothing is tracked, and the pass is the plain one."""
        for attention in self.attentions:
            attention.track_head_type = self._head_type(score, threshold) if score else None
            attention.zero_track_head_type = zero
            attention.record_head_scores = not zero
            attention.dormant_masks.clear()
            attention.head_scores.clear()

    def run(self, ids: torch.Tensor) -> torch.Tensor:
        """One pass as their evaluation makes it: every layer told where padding starts, logits of all positions."""
        for attention in self.attentions:
            attention.pad_idxs = torch.tensor([ids.shape[1]], device=ids.device)
            attention.fake_batch = False
        return self.model(ids, use_cache=False).logits

    def share_zeroed(self) -> float:
        masks = torch.cat([mask for attention in self.attentions for mask in attention.dormant_masks])
        return masks.float().mean().item()


def main() -> None:
    arguments = parse_arguments(__doc__, reference=True)
    warnings.filterwarnings("ignore", category=UserWarning)  # of torch, about how they make a tensor
    patched = PatchedModel(arguments.reference, arguments.model, arguments.device, arguments.type)

    def prompts_of(command: dict) -> list[torch.Tensor]:
        return [torch.tensor([ids], device=arguments.device) for ids in command["prompts"]]

    def passes(command: dict, rules: list[tuple[str, float]], *, zero: bool) -> dict:
        prompts = prompts_of(command)
        shares = []
        total = {"seconds": 0.0, "cpu_seconds": 0.0}
        for score, threshold in rules:
            patched.track(score, threshold, zero=zero)
            cost = timed(lambda: [patched.run(ids) for ids in prompts])
            total = {key: total[key] + cost[key] for key in total}
            shares.append(patched.share_zeroed())
        return {**total, "share": sum(shares) / len(shares)}

    def record(command: dict) -> dict:
        scores = command.get("scores") or [score for score in HEAD_TYPES if score != "random"]
        return passes(command, [(score, 0.0) for score in scores], zero=False)

    def ablate(command: dict) -> dict:
        rules = [
            ("random", rule["random"]) if "random" in rule else (rule["score"], rule["threshold"])
            for rule in command["rules"]
        ]
        return passes(command, rules, zero=True)

    def unpatched(command: dict) -> dict:
        patched.track(None)
        prompts = prompts_of(command)
        return timed(lambda: [patched.run(ids) for ids in prompts])

    serve({"record": record, "ablate": ablate, "unpatched": unpatched})


if __name__ == "__main__":
    main()
