// See model_scan.h.

#include "server/catalog/model_scan.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/errors.h"
#include "common/base/files.h"
#include "common/base/status_macros.h"
#include "common/catalog/checkpoint_tensors.h"
#include "common/catalog/safetensors.h"
#include "server/catalog/file_stamp.h"

namespace headcount::server {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLargestTokenizer = uint64_t{256} << 20;
constexpr int kBlocks = 64;
constexpr uint64_t kBlockBytes = 4096;

bool Within(const fs::path& path, const std::vector<std::string>& roots) {
  std::error_code error;
  for (const std::string& root : roots) {
    const fs::path real = fs::canonical(root, error);
    if (error) continue;
    const auto [at, unused] = std::mismatch(real.begin(), real.end(), path.begin(), path.end());
    if (at == real.end()) return true;
  }
  return false;
}

absl::Status CheckLinks(const std::string& folder, const std::vector<std::string>& roots) {
  for (const std::string& file : ListFiles(folder)) {
    std::error_code error;
    const fs::path real = fs::canonical(fs::path(folder) / file, error);
    if (!error && Within(real, roots)) continue;
    return WithReason(
        absl::FailedPreconditionError(absl::StrCat(
            file, " is a link ", error ? std::string("to nothing") : "to " + real.string(),
            ", outside every model root")),
        "MODEL_OUTSIDE_ROOT");
  }
  return absl::OkStatus();
}

// SHA-256 over each file's name, size, header and evenly spread blocks of its data.
absl::StatusOr<std::string> CheckpointDigest(const catalog::Checkpoint& checkpoint) {
  std::string summary;
  for (const std::string& path : checkpoint.files) {
    std::ifstream in(path, std::ios::binary);
    std::error_code error;
    const uint64_t size = fs::file_size(path, error);
    unsigned char length[8] = {};
    if (error || !in.read(reinterpret_cast<char*>(length), 8)) {
      return absl::FailedPreconditionError(absl::StrCat(path, " cannot be read"));
    }
    uint64_t header = 0;
    for (int i = 7; i >= 0; --i) header = header << 8 | length[i];
    if (header > catalog::kMaxSafetensorsHeaderBytes || header + 8 > size) {
      return absl::FailedPreconditionError(absl::StrCat(path, " changed while it was read"));
    }
    std::string bytes(header, '\0');
    in.read(bytes.data(), static_cast<std::streamsize>(header));
    const uint64_t data = size - 8 - header;
    std::string block(kBlockBytes, '\0');
    for (int i = 0; i < kBlocks; ++i) {
      const uint64_t last = data > kBlockBytes ? data - kBlockBytes : 0;
      in.seekg(static_cast<std::streamoff>(8 + header + last * i / (kBlocks - 1)));
      in.read(block.data(), static_cast<std::streamsize>(std::min(kBlockBytes, data)));
      bytes.append(block, 0, static_cast<size_t>(in.gcount()));
      in.clear();
    }
    absl::StrAppend(&summary, fs::path(path).filename().string(), " ", size, " ", Sha256Hex(bytes),
                    "\n");
  }
  return Sha256Hex(summary);
}

std::string Lower(std::string_view dtype) {
  if (dtype == "F32") return "float32";
  if (dtype == "BF16") return "bfloat16";
  if (dtype == "F16") return "float16";
  return std::string(dtype);
}

void FillFromCheckpoint(const catalog::Checkpoint& checkpoint, v1::Model* model) {
  std::map<catalog::DType, uint64_t> bytes_by_type;
  int64_t parameters = 0;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    const uint64_t bytes = tensor.info.end - tensor.info.begin;
    bytes_by_type[tensor.info.dtype] += bytes;
    parameters += static_cast<int64_t>(bytes / catalog::DTypeBytes(tensor.info.dtype));
  }
  model->set_parameters(parameters);
  model->set_bytes(static_cast<int64_t>(checkpoint.bytes));
  const auto most =
      std::max_element(bytes_by_type.begin(), bytes_by_type.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != bytes_by_type.end()) {
    model->set_dtype(Lower(catalog::DTypeName(most->first)));
  }
}

absl::Status ReadTokenizer(const std::string& folder, plan::ModelFacts* facts) {
  auto tokenizer = ReadFile(folder + "/tokenizer.json", kLargestTokenizer);
  if (!tokenizer.ok()) {
    return WithReason(
        absl::FailedPreconditionError(
            "tokenizer.json is missing; only models with a fast tokenizer can be run"),
        "TOKENIZER_MISSING");
  }
  const auto config = ReadFile(folder + "/tokenizer_config.json", kLargestTokenizer);
  if (config.ok()) {
    const auto json = nlohmann::json::parse(*config, nullptr, /*allow_exceptions=*/false);
    facts->has_chat_template = json.is_object() && json.contains("chat_template");
  }
  std::error_code error;
  facts->has_chat_template |= fs::exists(folder + "/chat_template.jinja", error);
  facts->tokenizer_digest = Sha256Hex(*tokenizer + config.value_or(""));
  return absl::OkStatus();
}

absl::Status Scan(const std::string& folder, const std::vector<std::string>& roots,
                  ScannedModel* out) {
  HC_RETURN_IF_ERROR(CheckLinks(folder, roots));
  HC_ASSIGN_OR_RETURN(const std::string config_text,
                      ReadFile(folder + "/config.json", uint64_t{4} << 20));
  v1::Model& model = out->model;
  model.set_config_digest(Sha256Hex(config_text));
  HC_ASSIGN_OR_RETURN(const catalog::ModelConfig config,
                      catalog::ParseModelConfig(config_text, "config.json"));
  out->facts.config = config;
  model.set_model_type(config.model_type);
  model.set_layers(config.layers);
  model.set_heads(config.heads);
  model.set_kv_heads(config.kv_heads);
  model.set_head_dim(config.head_dim);
  model.set_hidden_size(config.hidden_size);
  model.set_vocab_size(config.vocab_size);
  model.set_context_length(config.max_position_embeddings);
  HC_ASSIGN_OR_RETURN(const catalog::Checkpoint checkpoint, catalog::ListCheckpoint(folder));
  FillFromCheckpoint(checkpoint, &model);
  HC_RETURN_IF_ERROR(CheckTensors(config, checkpoint, TensorSources(config, checkpoint)));
  HC_ASSIGN_OR_RETURN(const std::string weights, CheckpointDigest(checkpoint));
  out->facts.digest = Sha256Hex(absl::StrCat(model.config_digest(), "\n", weights, "\n"));
  model.set_digest(out->facts.digest);
  HC_RETURN_IF_ERROR(ReadTokenizer(folder, &out->facts));
  model.set_has_chat_template(out->facts.has_chat_template);
  return absl::OkStatus();
}

bool EndsWith(const std::string& text, std::string_view end) { return text.ends_with(end); }

}  // namespace

bool LooksLikeModel(const std::vector<std::string>& files) {
  return std::any_of(files.begin(), files.end(), [](const std::string& file) {
    return file == "config.json" || EndsWith(file, ".safetensors") || EndsWith(file, ".bin") ||
           EndsWith(file, ".pt") || EndsWith(file, ".pth") || EndsWith(file, ".gguf");
  });
}

ScannedModel ScanModel(const std::string& name, const std::string& folder,
                       const std::vector<std::string>& roots) {
  ScannedModel out;
  out.model.set_name(name);
  absl::Status status = Scan(folder, roots, &out);
  if (!status.ok()) {
    // Whatever is wrong with the folder, the client's request is refused for the state of the
    // server: someone has to change the model's files.
    absl::Status refused(absl::StatusCode::kFailedPrecondition, status.message());
    refused = WithReason(std::move(refused), ReasonOf(status).value_or("MODEL_CANNOT_BE_RUN"));
    out.status = WithField(Annotate(refused, "model " + name), "model");
    out.model.set_problem(std::string(status.message()));
  }
  return out;
}

}  // namespace headcount::server
