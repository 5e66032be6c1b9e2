"""The tiny models that make_families.py makes: config.json in the spelling of checkpoints on the hub."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

VOCABULARY = 512
LENGTHS = [2, 5, 17, 40, 127, 300]
# Of 127 tokens more than half see the first one, of 300 fewer.
WINDOW = 80


@dataclass
class Spec:
    config: dict[str, Any]
    seed: int
    file_name: Callable[[str], str] = lambda name: name  # as checkpoints on the hub call a tensor


COMMON = {
    "vocab_size": VOCABULARY,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_size": 48,
    "intermediate_size": 64,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "torch_dtype": "bfloat16",
}
LLAMA = {**COMMON, "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": False}

FAMILIES = {
    "mistral": Spec(
        {
            **LLAMA,
            "model_type": "mistral",
            "architectures": ["MistralForCausalLM"],
            "head_dim": 16,
            "rope_theta": 10000.0,
            "sliding_window": WINDOW,
        },
        seed=11,
    ),
    "qwen2window": Spec(
        {
            **LLAMA,
            "model_type": "qwen2",
            "architectures": ["Qwen2ForCausalLM"],
            "rope_theta": 1000000.0,
            "rms_norm_eps": 1e-6,
            "tie_word_embeddings": True,
            "use_sliding_window": True,
            "sliding_window": WINDOW,
            "max_window_layers": 1,
        },
        seed=12,
    ),
    "qwen3": Spec(
        {
            **LLAMA,
            "model_type": "qwen3",
            "architectures": ["Qwen3ForCausalLM"],
            "head_dim": 16,
            "attention_bias": False,
            "rope_theta": 1000000,
            "rope_scaling": None,
            "rms_norm_eps": 1e-6,
            "tie_word_embeddings": True,
            "use_sliding_window": False,
            "sliding_window": None,
            "max_window_layers": 3,
        },
        seed=13,
    ),
    "gptneox": Spec(
        {
            "model_type": "gpt_neox",
            "architectures": ["GPTNeoXForCausalLM"],
            "vocab_size": VOCABULARY,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "hidden_size": 48,
            "intermediate_size": 96,
            "max_position_embeddings": 512,
            "hidden_act": "gelu",
            "layer_norm_eps": 1e-5,
            "rotary_pct": 0.34,
            "rotary_emb_base": 10000,
            "use_parallel_residual": True,
            "tie_word_embeddings": False,
            "torch_dtype": "float16",
            "bos_token_id": 0,
            "eos_token_id": 0,
        },
        seed=14,
        file_name=lambda name: name.replace("lm_head", "embed_out"),
    ),
    "gpt2": Spec(
        {
            "model_type": "gpt2",
            "architectures": ["GPT2LMHeadModel"],
            "vocab_size": VOCABULARY,
            "n_layer": 3,
            "n_head": 4,
            "n_embd": 40,
            "n_positions": 400,
            "n_ctx": 400,
            "activation_function": "gelu_new",
            "layer_norm_epsilon": 1e-5,
            "bos_token_id": 511,
            "eos_token_id": 511,
        },
        seed=15,
        file_name=lambda name: name.removeprefix("transformer."),
    ),
    "gemma2": Spec(
        {
            **COMMON,
            "model_type": "gemma2",
            "architectures": ["Gemma2ForCausalLM"],
            "head_dim": 16,
            "hidden_activation": "gelu_pytorch_tanh",
            "rms_norm_eps": 1e-6,
            "rope_theta": 10000.0,
            "query_pre_attn_scalar": 12,
            "sliding_window": WINDOW,
            "attn_logit_softcapping": 3.0,
            "final_logit_softcapping": 2.5,
        },
        seed=16,
    ),
    "gemma3": Spec(
        {
            **COMMON,
            "model_type": "gemma3_text",
            "architectures": ["Gemma3ForCausalLM"],
            "head_dim": 16,
            "hidden_activation": "gelu_pytorch_tanh",
            "rms_norm_eps": 1e-6,
            "rope_theta": 1000000,
            "rope_local_base_freq": 10000,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
            "query_pre_attn_scalar": 24,
            "sliding_window": WINDOW,
            "sliding_window_pattern": 2,
            "attn_logit_softcapping": None,
            "final_logit_softcapping": None,
        },
        seed=17,
    ),
}
