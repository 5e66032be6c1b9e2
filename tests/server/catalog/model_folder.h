// Makes model folders for tests: a tiny llama with the shapes that follow from its config, all
// zeros. Not thread-safe.

#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace headcount::server {

using Shapes = std::map<std::string, std::vector<int64_t>>;

// 2 layers x 3 query heads of 4, no grouping: the shape that tests/server/queue/fake_chunks.h
// fills.
inline nlohmann::json TinyConfig() {
  return {{"model_type", "llama"},    {"architectures", {"LlamaForCausalLM"}},
          {"num_hidden_layers", 2},   {"num_attention_heads", 3},
          {"num_key_value_heads", 3}, {"head_dim", 4},
          {"hidden_size", 12},        {"intermediate_size", 16},
          {"vocab_size", 100},        {"max_position_embeddings", 64},
          {"rms_norm_eps", 1e-5},     {"rope_theta", 10000.0},
          {"hidden_act", "silu"},     {"tie_word_embeddings", true},
          {"torch_dtype", "float32"}};
}

inline Shapes TinyShapes() {
  Shapes shapes = {{"model.embed_tokens.weight", {100, 12}}, {"model.norm.weight", {12}}};
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
      shapes[layer + "self_attn." + name + ".weight"] = {12, 12};
    }
    shapes[layer + "mlp.gate_proj.weight"] = {16, 12};
    shapes[layer + "mlp.up_proj.weight"] = {16, 12};
    shapes[layer + "mlp.down_proj.weight"] = {12, 16};
    shapes[layer + "input_layernorm.weight"] = {12};
    shapes[layer + "post_attention_layernorm.weight"] = {12};
  }
  return shapes;
}

inline void WriteText(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// float32 zeros, but for the bytes at the end, which are `mark`.
inline std::string Safetensors(const Shapes& shapes, char mark = 0,
                               const std::string& dtype = "F32", int bytes_each = 4) {
  nlohmann::json header = nlohmann::json::object();
  uint64_t offset = 0;
  for (const auto& [name, shape] : shapes) {
    uint64_t bytes = bytes_each;
    for (const int64_t extent : shape) bytes *= extent;
    header[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  const std::string text = header.dump();
  std::string out;
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(text.size() >> (8 * i)));
  return out + text + std::string(offset - 4, '\0') + std::string(4, mark);
}

inline void MakeTinyModel(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  WriteText(folder / "config.json", TinyConfig().dump());
  WriteText(folder / "model.safetensors", Safetensors(TinyShapes()));
  WriteText(folder / "tokenizer.json", "{}");
  WriteText(folder / "tokenizer_config.json", R"({"chat_template": "{{ messages }}"})");
}

}  // namespace headcount::server
