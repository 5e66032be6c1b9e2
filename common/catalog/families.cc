// The model families this version runs. See model_config.h; add-a-model.md says how to add one.

#include "common/catalog/model_config.h"

namespace headcount::catalog {
namespace {

constexpr Family kFamilies[] = {
    {"llama", "Llama 2 and 3.x, SmolLM2 and others of that shape: norm before each block",
     NormPlacement::kBefore, /*qkv_bias=*/false, QkNorm::kNone},
    {"qwen2", "Qwen2 and Qwen2.5: as llama, with biases on q, k and v", NormPlacement::kBefore,
     /*qkv_bias=*/true, QkNorm::kNone},
    {"olmo2", "OLMo 2: norm on the output of each block, RMS norm of q and k over the projection",
     NormPlacement::kAfter, /*qkv_bias=*/false, QkNorm::kProjection},
};

}  // namespace

std::span<const Family> Families() { return kFamilies; }

}  // namespace headcount::catalog
