// See golden_data.h.

#include "golden_data.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "common/base/files.h"
#include "common/catalog/safetensors.h"
#include "gtest/gtest.h"

namespace headcount::engine {
namespace {

std::string Environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == 0 ? otherwise : value;
}

std::string Existing(const std::string& folder, const char* file) {
  return std::filesystem::exists(folder + "/" + file) ? folder : "";
}

template <typename T>
void Append(const std::string& bytes, const catalog::TensorInfo& info, std::vector<float>& out) {
  for (uint64_t at = info.begin; at < info.end; at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    out.push_back(static_cast<float>(value));
  }
}

}  // namespace

GoldenTensors ReadGoldenTensors(const std::string& path) {
  GoldenTensors out;
  const auto header = catalog::ReadSafetensorsHeader(path);
  const auto bytes = ReadFile(path);
  if (!header.ok() || !bytes.ok()) {
    ADD_FAILURE() << header.status() << " " << bytes.status();
    return out;
  }
  for (const auto& [name, info] : header->tensors) {
    std::vector<float>& values = out[name];
    switch (info.dtype) {
      case catalog::DType::kF32:
        Append<float>(*bytes, info, values);
        break;
      case catalog::DType::kI64:
        Append<int64_t>(*bytes, info, values);
        break;
      case catalog::DType::kBool:
        Append<uint8_t>(*bytes, info, values);
        break;
      default:
        ADD_FAILURE() << path << ": " << name << " has a type that golden files do not have";
    }
  }
  return out;
}

nlohmann::json ReadGoldenJson(const std::string& path) {
  const auto text = ReadFile(path);
  if (!text.ok()) ADD_FAILURE() << text.status();
  return nlohmann::json::parse(text.ok() ? *text : "null");
}

std::string TinyModel(const std::string& name) { return "tests/golden/" + name; }

std::vector<std::vector<int32_t>> TinyPrompts(const std::string& name) {
  return ReadGoldenJson(TinyModel(name) + "/golden.json")["token_ids"]
      .get<std::vector<std::vector<int32_t>>>();
}

std::string RealModel(const std::string& name) {
  const std::string prefix =
      Environment("HEADCOUNT_PREFIX", Environment("HOME", "") + "/.cache/headcount");
  return Existing(prefix + "/models/" + name, "model.safetensors");
}

std::string SmolLm2Golden() {
  return Existing(Environment("HEADCOUNT_SHARED", "../shared") + "/golden/smollm2",
                  "scores.safetensors");
}

std::string CompareScores(const std::vector<float>& actual, const float* expected) {
  std::ostringstream out;
  for (size_t i = 0; i < actual.size(); ++i) {
    const float difference = std::fabs(actual[i] - expected[i]);
    if (std::isnan(actual[i]) && std::isnan(expected[i])) continue;
    if (difference <= 1e-5f || difference <= 1e-4f * std::fabs(expected[i])) continue;
    out << "[" << i << "] " << actual[i] << " instead of " << expected[i] << "; ";
  }
  return out.str();
}

}  // namespace headcount::engine
