// Model folders as the catalogue sees them: what is read, what is refused, and that a changed
// folder is read again.

#include "server/catalog/model_catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/errors.h"
#include "tests/common/base/temp_folder.h"
#include "tests/server/catalog/model_folder.h"

namespace headcount::server {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ModelCatalogTest : public ::testing::Test {
 protected:
  ModelCatalogTest() {
    fs::create_directories(root_);
    MakeTinyModel(root_ / "tiny");
    config_.model_roots = {root_.string()};
    catalog_ = std::make_unique<ModelCatalog>(config_);
  }

  // The only model's problem, which Find must say too, as FAILED_PRECONDITION with the field.
  std::string Problem(const std::string& name = "tiny") {
    for (const v1::Model& model : catalog_->List()) {
      if (model.name() != name) continue;
      const absl::Status status = catalog_->Find(name).status();
      EXPECT_EQ(status.ok(), model.problem().empty()) << status;
      if (!status.ok()) {
        EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
        EXPECT_EQ(FieldOf(status), "model");
        EXPECT_TRUE(ReasonOf(status).has_value());
        EXPECT_THAT(std::string(status.message()), HasSubstr(model.problem()));
      }
      return model.problem();
    }
    return "not listed";
  }

  TempFolder folder_;
  const fs::path root_ = fs::path(folder_.path()) / "models";
  Config config_;
  std::unique_ptr<ModelCatalog> catalog_;
};

TEST_F(ModelCatalogTest, SaysWhatAModelIs) {
  const std::vector<v1::Model> models = catalog_->List();
  ASSERT_EQ(models.size(), 1u);
  const v1::Model& model = models[0];
  EXPECT_EQ(model.problem(), "");
  EXPECT_EQ(model.name(), "tiny");
  EXPECT_EQ(model.model_type(), "llama");
  EXPECT_EQ(model.layers(), 2);
  EXPECT_EQ(model.heads(), 3);
  EXPECT_EQ(model.kv_heads(), 3);
  EXPECT_EQ(model.head_dim(), 4);
  EXPECT_EQ(model.hidden_size(), 12);
  EXPECT_EQ(model.vocab_size(), 100);
  EXPECT_EQ(model.context_length(), 64);
  // Embedding 100 x 12, final norm 12; a layer: 4 x 12 x 12 + 3 x 16 x 12 + 2 x 12.
  EXPECT_EQ(model.parameters(), 1200 + 12 + 2 * (576 + 576 + 24));
  EXPECT_EQ(model.bytes(), static_cast<int64_t>(fs::file_size(root_ / "tiny/model.safetensors")));
  EXPECT_EQ(model.dtype(), "float32");
  EXPECT_EQ(model.config_digest().size(), 64u);
  EXPECT_EQ(model.digest().size(), 64u);
  EXPECT_TRUE(model.has_chat_template());
  const auto facts = catalog_->Find("tiny");
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts->config.heads, 3);
  EXPECT_EQ(facts->digest, model.digest());
  EXPECT_EQ(facts->tokenizer_digest.size(), 64u);
}

TEST_F(ModelCatalogTest, TheDigestTellsFineTunedWeightsApart) {
  const std::string before = catalog_->List()[0].digest();
  WriteText(root_ / "tiny/model.safetensors", Safetensors(TinyShapes(), 'x'));
  EXPECT_NE(catalog_->List()[0].digest(), before);
  WriteText(root_ / "tiny/model.safetensors", Safetensors(TinyShapes()));
  EXPECT_EQ(catalog_->List()[0].digest(), before);
}

TEST_F(ModelCatalogTest, ANewModelIsSeenAtOnceAndFoldersWithoutOneAreNot) {
  EXPECT_EQ(catalog_->Find("later").status().code(), absl::StatusCode::kNotFound);
  MakeTinyModel(root_ / "later");
  fs::create_directories(root_ / "notes");
  WriteText(root_ / "notes/readme.txt", "");
  WriteText(root_ / "file", "");
  EXPECT_TRUE(catalog_->Find("later").ok());
  EXPECT_EQ(catalog_->List().size(), 2u);
}

TEST_F(ModelCatalogTest, AHuggingFaceCacheIsReadByTheHubsNames) {
  const fs::path cached = root_ / "models--org--small";
  MakeTinyModel(cached / "blobs");
  fs::create_directories(cached / "snapshots/abc");
  fs::create_directories(cached / "refs");
  WriteText(cached / "refs/main", "abc");
  for (const auto& blob : fs::directory_iterator(cached / "blobs")) {
    const fs::path name = blob.path().filename();
    fs::create_symlink("../../blobs" / name, cached / "snapshots/abc" / name);
  }
  const auto facts = catalog_->Find("org/small");
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->config.layers, 2);
  std::vector<std::string> names;
  for (const v1::Model& model : catalog_->List()) names.push_back(model.name());
  EXPECT_THAT(names, ::testing::ElementsAre("org/small", "tiny"));
}

TEST_F(ModelCatalogTest, HeadsThatDoNotDivideTheHiddenSize) {
  nlohmann::json config = TinyConfig();
  config.erase("head_dim");
  config["hidden_size"] = 13;
  WriteText(root_ / "tiny/config.json", config.dump());
  EXPECT_THAT(Problem(), HasSubstr("13"));
}

TEST_F(ModelCatalogTest, AConfigThatIsMissingOrNotJson) {
  WriteText(root_ / "tiny/config.json", "{");
  EXPECT_NE(Problem(), "");
  fs::remove(root_ / "tiny/config.json");
  EXPECT_THAT(Problem(), HasSubstr("config.json"));
}

TEST_F(ModelCatalogTest, AFamilyThatIsNotServed) {
  nlohmann::json config = TinyConfig();
  config["model_type"] = "mamba";
  WriteText(root_ / "tiny/config.json", config.dump());
  EXPECT_THAT(Problem(), HasSubstr("mamba"));
}

TEST_F(ModelCatalogTest, ATruncatedFileAndAHeaderThatLies) {
  const std::string good = Safetensors(TinyShapes());
  WriteText(root_ / "tiny/model.safetensors", good.substr(0, good.size() - 1));
  EXPECT_NE(Problem(), "");
  WriteText(root_ / "tiny/model.safetensors", good.substr(0, 5));
  EXPECT_NE(Problem(), "");
  std::string lying = good;
  lying[7] = '\x7f';  // a header of 2^62 bytes
  WriteText(root_ / "tiny/model.safetensors", lying);
  EXPECT_NE(Problem(), "");
  WriteText(root_ / "tiny/model.safetensors", good);
  EXPECT_EQ(Problem(), "");
}

TEST_F(ModelCatalogTest, WeightsThatAreNotThoseOfTheConfig) {
  Shapes shapes = TinyShapes();
  shapes["model.layers.1.self_attn.k_proj.weight"] = {8, 12};
  WriteText(root_ / "tiny/model.safetensors", Safetensors(shapes));
  EXPECT_THAT(Problem(), HasSubstr("8 x 12; config.json makes it 12 x 12"));
  shapes = TinyShapes();
  shapes.erase("model.layers.0.self_attn.o_proj.weight");
  WriteText(root_ / "tiny/model.safetensors", Safetensors(shapes));
  EXPECT_THAT(Problem(), HasSubstr("o_proj.weight is missing"));
  WriteText(root_ / "tiny/model.safetensors", Safetensors(TinyShapes(), 0, "I32"));
  EXPECT_THAT(Problem(), HasSubstr("I32"));
}

TEST_F(ModelCatalogTest, PickledWeightsAreRefusedUnread) {
  fs::remove(root_ / "tiny/model.safetensors");
  for (const char* name : {"pytorch_model.bin", "model.pt"}) {
    WriteText(root_ / "tiny" / name, "\x80\x02pickle");
    EXPECT_THAT(Problem(), HasSubstr("safetensors")) << name;
    fs::remove(root_ / "tiny" / name);
  }
}

TEST_F(ModelCatalogTest, AModelWithoutATokenizer) {
  fs::remove(root_ / "tiny/tokenizer.json");
  EXPECT_THAT(Problem(), HasSubstr("tokenizer.json"));
}

TEST_F(ModelCatalogTest, FilesThatAreLinksOutOfTheRoot) {
  const fs::path outside = fs::path(folder_.path()) / "outside.safetensors";
  fs::rename(root_ / "tiny/model.safetensors", outside);
  fs::create_symlink(outside, root_ / "tiny/model.safetensors");
  EXPECT_THAT(Problem(), HasSubstr("outside every model root"));
  // Within the root links are fine: Hugging Face's own cache is made of them.
  fs::create_directories(root_ / "blobs");
  fs::rename(outside, root_ / "blobs/1234");
  fs::remove(root_ / "tiny/model.safetensors");
  fs::create_symlink("../blobs/1234", root_ / "tiny/model.safetensors");
  EXPECT_EQ(Problem(), "");
}

TEST_F(ModelCatalogTest, AFolderThatIsALinkOutOfTheRootIsListedWithItsProblem) {
  MakeTinyModel(fs::path(folder_.path()) / "elsewhere");
  fs::create_directory_symlink(fs::path(folder_.path()) / "elsewhere", root_ / "escape");
  EXPECT_THAT(Problem("escape"), HasSubstr("outside every model root"));
}

}  // namespace
}  // namespace headcount::server
