// Tokenising and the layout of the manifest, with an encoder whose ids are easy to read: a token a
// character, but "ab" is one token, so that it merges across a seam.

#include "worker/eval/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headcount::eval {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Ids = std::vector<int32_t>;

constexpr int32_t kMerged = 1000;

absl::StatusOr<Ids> Encode(std::string_view text) {
  Ids ids;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("ab")) {
      ids.push_back(kMerged);
      ++i;
    } else {
      ids.push_back(static_cast<unsigned char>(text[i]));
    }
  }
  return ids;
}

Document Make(std::string task, int64_t row, std::string context,
              std::vector<std::string> continuations) {
  Document document;
  document.task = std::move(task);
  document.row = row;
  document.context = std::move(context);
  document.continuations = std::move(continuations);
  document.choice_lengths.assign(document.continuations.size(), 1);
  document.gold = document.continuations.empty() ? -1 : 0;
  return document;
}

TEST(EncodeDocument, OneTokenChoicesShareASample) {
  const auto samples = EncodeDocument(Make("t", 0, "xy", {"A", "B", "C"}), Encode);
  ASSERT_TRUE(samples.ok()) << samples.status();
  ASSERT_EQ(samples->size(), 1u);
  EXPECT_EQ((*samples)[0].request, 0);
  EXPECT_THAT((*samples)[0].input, ElementsAre('x', 'y'));
  EXPECT_THAT((*samples)[0].targets, ElementsAre('A', 'B', 'C'));
  EXPECT_EQ((*samples)[0].scored, 1);
  EXPECT_THAT((*samples)[0].choices, ElementsAre(0, 1, 2));
}

TEST(EncodeDocument, LongerChoicesShareOnlyEqualInputs) {
  const auto samples = EncodeDocument(Make("t", 0, "x", {"pq", "pr", "z", "pq"}), Encode);
  ASSERT_TRUE(samples.ok()) << samples.status();
  ASSERT_EQ(samples->size(), 2u);
  EXPECT_THAT((*samples)[0].input, ElementsAre('x', 'p'));
  EXPECT_THAT((*samples)[0].targets, ElementsAre('p', 'q', 'p', 'r', 'p', 'q'));
  EXPECT_EQ((*samples)[0].scored, 2);
  EXPECT_THAT((*samples)[0].choices, ElementsAre(0, 1, 3));
  EXPECT_EQ((*samples)[1].request, 2);
  EXPECT_THAT((*samples)[1].input, ElementsAre('x'));
  EXPECT_THAT((*samples)[1].targets, ElementsAre('z'));
}

TEST(EncodeDocument, WhiteSpaceAtTheEndOfTheContextIsScored) {
  const auto samples = EncodeDocument(Make("t", 0, "x\n\n", {" A", " B"}), Encode);
  ASSERT_TRUE(samples.ok()) << samples.status();
  ASSERT_EQ(samples->size(), 1u);
  EXPECT_THAT((*samples)[0].input, ElementsAre('x', '\n', '\n', ' '));
  EXPECT_EQ((*samples)[0].scored, 4);
  EXPECT_THAT((*samples)[0].targets, ElementsAre('\n', '\n', ' ', 'A', '\n', '\n', ' ', 'B'));
}

TEST(EncodeDocument, CutsByCountWhereATokenMergesAcrossTheSeam) {
  // "xa" is 2 tokens and "xabc" is x, ab, c: the continuation is what follows the first 2, and the
  // input begins with the context's own ids.
  const auto samples = EncodeDocument(Make("t", 0, "xa", {"bcd"}), Encode);
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_THAT((*samples)[0].input, ElementsAre('x', 'a', 'c'));
  EXPECT_THAT((*samples)[0].targets, ElementsAre('c', 'd'));
}

TEST(EncodeDocument, CutsATextIntoWindowsThatFillTheContext) {
  std::string text;
  for (char c = 1; c <= 34; ++c) text += c;
  Document document = Make("t", 0, "", {text});
  document.rolling = true;
  // The example of lm-evaluation-harness' own test: 34 tokens, 10 a window.
  const auto samples = EncodeDocument(document, Encode, {kMerged, 10});
  ASSERT_TRUE(samples.ok()) << samples.status();
  ASSERT_EQ(samples->size(), 4u);
  EXPECT_THAT((*samples)[0].input, ElementsAre(kMerged, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT((*samples)[0].targets, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_THAT((*samples)[1].input, ElementsAre(10, 11, 12, 13, 14, 15, 16, 17, 18, 19));
  EXPECT_THAT((*samples)[1].targets, ElementsAre(11, 12, 13, 14, 15, 16, 17, 18, 19, 20));
  EXPECT_THAT((*samples)[3].input, ElementsAre(24, 25, 26, 27, 28, 29, 30, 31, 32, 33));
  EXPECT_THAT((*samples)[3].targets, ElementsAre(31, 32, 33, 34));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ((*samples)[i].request, static_cast<int>(i));
    EXPECT_THAT((*samples)[i].choices, ElementsAre(0));
    EXPECT_EQ((*samples)[i].scored, i < 3 ? 10 : 4);
  }
  const auto whole = EncodeDocument(document, Encode, {kMerged, 34});
  ASSERT_EQ(whole->size(), 1u);
  EXPECT_EQ(whole->front().input.size(), 34u);
  EXPECT_THAT(std::string(EncodeDocument(document, Encode, {std::nullopt, 10}).status().message()),
              HasSubstr("neither a BOS nor an EOS"));
  document.continuations = {""};
  EXPECT_THAT(std::string(EncodeDocument(document, Encode, {kMerged, 10}).status().message()),
              HasSubstr("no tokens"));
}

TEST(EncodeDocument, NamesWhatCannotBeScored) {
  const auto message = [](const Document& document) {
    return std::string(EncodeDocument(document, Encode).status().message());
  };
  EXPECT_THAT(message(Make("t", 7, "xa", {"c", "b"})), HasSubstr("sample t/7/1"));
  EXPECT_THAT(message(Make("t", 7, " \n", {"b"})), HasSubstr("sample t/7/0"));
  EXPECT_THAT(message(Make("t", 7, "", {})), HasSubstr("sample t/7/0"));
}

std::vector<Document> Quiz() {
  return {Make("quiz_a", 0, "head one", {"A", "B"}), Make("quiz_a", 1, "head two!", {"A", "B"}),
          Make("quiz_b", 0, "tail one", {"xy", "xz", "w"}), Make("quiz_b", 1, "other", {})};
}

ManifestOptions Options(bool group_by_task) {
  ManifestOptions options;
  options.group_by_task = group_by_task;
  options.max_tokens = 100;
  return options;
}

Ids Input(const v1::Manifest& manifest, const v1::ManifestSample& sample) {
  const auto& prefix = manifest.groups(sample.group()).prefix();
  Ids ids(prefix.begin(), prefix.end());
  ids.insert(ids.end(), sample.suffix().begin(), sample.suffix().end());
  return ids;
}

TEST(Manifest, GroupsATaskByItsSharedPrefix) {
  const auto manifest = BuildManifest(Quiz(), Encode, Options(true));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  ASSERT_EQ(manifest->groups_size(), 2);
  EXPECT_EQ(manifest->groups(1).group(), 1);
  EXPECT_THAT(manifest->groups(0).prefix(), ElementsAre('h', 'e', 'a', 'd', ' '));
  EXPECT_THAT(manifest->groups(1).prefix(), IsEmpty());
  ASSERT_EQ(manifest->documents_size(), 4);
  EXPECT_EQ(manifest->documents(2).id(), "quiz_b/0");
  EXPECT_EQ(manifest->documents(2).subtask(), "quiz_b");
  EXPECT_EQ(manifest->documents(3).gold(), -1);
  ASSERT_EQ(manifest->samples_size(), 5);
  EXPECT_EQ(manifest->samples(0).id(), "quiz_a/0/0");
  EXPECT_EQ(manifest->samples(2).id(), "quiz_b/0/0");
  EXPECT_EQ(manifest->samples(3).id(), "quiz_b/0/2");
  EXPECT_EQ(manifest->samples(4).id(), "quiz_b/1/0");
  EXPECT_EQ(manifest->samples(4).scored(), 0);
  EXPECT_EQ(manifest->longest_sample(), 9);
  for (const auto& sample : manifest->samples()) {
    EXPECT_GE(sample.suffix_size(), 1);
    EXPECT_EQ(sample.digest(), SampleDigest(Input(*manifest, sample),
                                            Ids(sample.targets().begin(), sample.targets().end())));
  }
  EXPECT_EQ(Input(*manifest, manifest->samples(1)), *Encode("head two!"));
}

TEST(Manifest, GroupsDocumentsAloneAndLeavesATokenToEverySample) {
  const auto manifest = BuildManifest(Quiz(), Encode, Options(false));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  ASSERT_EQ(manifest->groups_size(), 4);
  EXPECT_EQ(manifest->groups(0).prefix_size(), 7);  // a single sample: all but its last token
  // "tail one" is the whole input of choice w and the beginning of the other sample's.
  EXPECT_EQ(manifest->groups(2).prefix_size(), 7);
  EXPECT_THAT(manifest->samples(2).suffix(), ElementsAre('e', 'x'));
  EXPECT_THAT(manifest->samples(3).suffix(), ElementsAre('e'));
}

TEST(Manifest, BytesDoNotDependOnThreads) {
  std::vector<Document> documents;
  for (int i = 0; i < 200; ++i) {
    documents.push_back(Make("t", i, "context " + std::to_string(i * 7919), {"A", "longer", "B"}));
  }
  ManifestOptions options = Options(true);
  std::atomic<int64_t> last = 0;
  options.progress = [&last](int64_t done, int64_t total) {
    EXPECT_LE(done, total);
    int64_t seen = last.load();
    while (seen < done && !last.compare_exchange_weak(seen, done)) {
    }
  };
  const auto one = BuildManifest(documents, Encode, options);
  options.threads = 4;
  const auto four = BuildManifest(documents, Encode, options);
  ASSERT_TRUE(one.ok() && four.ok());
  EXPECT_EQ(one->SerializeAsString(), four->SerializeAsString());
  EXPECT_EQ(last, 200);
}

TEST(Manifest, RefusesPromptsOverTheContextAndNamesTheFirst) {
  ManifestOptions options = Options(false);
  options.threads = 3;
  options.max_tokens = 8;
  const auto manifest = BuildManifest(Quiz(), Encode, options);
  EXPECT_TRUE(absl::IsInvalidArgument(manifest.status()));
  EXPECT_THAT(std::string(manifest.status().message()),
              HasSubstr("sample quiz_a/1/0: prompt has 9 tokens, the model's context holds 8"));
  options.max_tokens = 9;
  EXPECT_TRUE(BuildManifest(Quiz(), Encode, options).ok());
}

TEST(Manifest, StopsWhenTold) {
  std::atomic<bool> cancel = true;
  ManifestOptions options = Options(false);
  options.cancel = &cancel;
  EXPECT_TRUE(absl::IsCancelled(BuildManifest(Quiz(), Encode, options).status()));
}

TEST(Digests, FollowTheirDefinition) {
  // hashlib.sha256(struct.pack("<3i", 1, 2, 70000)).hexdigest()
  const std::string sample = SampleDigest({1, 2}, {70'000});
  EXPECT_EQ(sample.size(), 32u);
  EXPECT_EQ(static_cast<unsigned char>(sample[0]), 0x31);
  EXPECT_EQ(static_cast<unsigned char>(sample[31]), 0x4);
  // sha256 over "t/0", "ctx", 2, " A", " B" as manifest.h lays them out, by hashlib.
  EXPECT_EQ(RequestsDigest({Make("t", 0, "ctx", {" A", " B"})}),
            "c67817eeb8c00be317b948766544e5667d954e58f3a75a5af9a4bc057dfcb80a");
}

}  // namespace
}  // namespace headcount::eval
