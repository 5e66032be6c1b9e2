"""The paper's 14 models in tiny form: the settings of their config.json, with fewer and smaller layers.

Groups of query heads, rope, norms, biases, activation and tying are those of the model. Weights are not stored: a
formula gives them here and in tests/worker/engine/paper_models_test.cc.
"""

from __future__ import annotations

from typing import Any

import torch

VOCABULARY = 64
TOKENS = [(7 * i * i + 3 * i + 1) % VOCABULARY for i in range(24)]
SMALL = {"num_hidden_layers": 2, "vocab_size": VOCABULARY, "intermediate_size": 40, "hidden_act": "silu"}


def llama(factor: float, heads: int, kv_heads: int, tied: bool) -> dict[str, Any]:
    return {
        **SMALL,
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 8 * heads,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": 8,
        "attention_bias": False,
        "mlp_bias": False,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-05,
        "rope_theta": 500000.0,
        "rope_scaling": {
            "factor": factor,
            "high_freq_factor": 4.0,
            "low_freq_factor": 1.0,
            "original_max_position_embeddings": 8192,
            "rope_type": "llama3",
        },
        "tie_word_embeddings": tied,
        "torch_dtype": "bfloat16",
        "bos_token_id": 0,
        "eos_token_id": 1,
    }


def olmo2() -> dict[str, Any]:
    return {
        **SMALL,
        "model_type": "olmo2",
        "architectures": ["Olmo2ForCausalLM"],
        "hidden_size": 48,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "attention_bias": False,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-06,
        "rope_theta": 500000,
        "rope_scaling": None,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "eos_token_id": 1,
        "pad_token_id": 2,
    }


def qwen2(heads: int, kv_heads: int, tied: bool, context: int, window_layers: int, eps: float = 1e-6) -> dict[str, Any]:
    return {
        **SMALL,
        "model_type": "qwen2",
        "architectures": ["Qwen2ForCausalLM"],
        "hidden_size": 4 * heads,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": context,
        "max_window_layers": window_layers,
        "sliding_window": context,
        "use_sliding_window": False,
        "rms_norm_eps": eps,
        "rope_theta": 1000000.0,
        "tie_word_embeddings": tied,
        "torch_dtype": "bfloat16",
        "bos_token_id": 0,
        "eos_token_id": 1,
    }


PAPER_MODELS = {
    "Llama-3.2-3B": llama(32.0, 6, 2, True),
    "Llama-3.2-3B-Instruct": llama(32.0, 6, 2, True),
    "Llama-3.1-8B": llama(8.0, 8, 2, False),
    "Llama-3.1-8B-Instruct": llama(8.0, 8, 2, False),
    "OLMo-2-1124-7B": olmo2(),
    "OLMo-2-1124-7B-SFT": olmo2(),
    "OLMo-2-1124-7B-DPO": olmo2(),
    "OLMo-2-1124-7B-Instruct": olmo2(),
    "Qwen2.5-0.5B": qwen2(14, 2, True, 32768, 24),
    "Qwen2.5-1.5B": qwen2(12, 2, True, 131072, 28),
    "Qwen2.5-3B": qwen2(16, 2, True, 32768, 36),
    "Qwen2.5-7B": qwen2(28, 4, False, 131072, 28),
    "Qwen2.5-7B-Instruct": qwen2(28, 4, False, 32768, 28),
    "Qwen2.5-14B": qwen2(10, 2, False, 131072, 48, eps=1e-5),
}


def numbers(name: str, count: int) -> torch.Tensor:
    """In [-1, 1), exact in float32: the top 24 bits of splitmix64, seeded by the FNV-1a hash of the name."""
    mask = (1 << 64) - 1
    state = 0xCBF29CE484222325
    for byte in name.encode():
        state = ((state ^ byte) * 0x100000001B3) & mask
    out = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        out.append(((z ^ (z >> 31)) >> 40) / (1 << 23) - 1)
    return torch.tensor(out, dtype=torch.float64).float()


def deterministic_weights(model: Any) -> None:
    """Matrices in [-1/2, 1/2), vectors likewise around 1 for norms and 0 for biases."""
    for name, parameter in model.named_parameters():
        values = numbers(name, parameter.numel()).view(parameter.shape) / 2
        parameter.data = values + (1 if name.endswith("norm.weight") else 0)
    if model.config.tie_word_embeddings:
        model.tie_weights()
