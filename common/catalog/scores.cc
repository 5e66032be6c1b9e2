// The score table of the paper (arXiv 2504.03889, table 1 and appendix), one entry a score. See
// scores.h.

#include "common/catalog/scores.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"

namespace headcount::catalog {
namespace {

struct Entry {
  const char* id;
  const char* paper_name;
  const char* alias;
  const char* formula;  // empty: random
  const char* unit;
  Inactive inactive;
  const char* source;
  const char* description;
};

constexpr auto kBelow = Inactive::kBelow;
constexpr auto kAbove = Inactive::kAbove;
constexpr const char* kPaper = "arXiv 2504.03889, section 3";
constexpr const char* kAppendix = "arXiv 2504.03889, appendix";
constexpr const char* kDormant = "Guo et al., arXiv 2410.13835; arXiv 2504.03889, section 3";
constexpr const char* kRatio = "ratio to the layer's mean";

constexpr Entry kEntries[] = {
    {"first_token_weight", "Avg Weight of First Token", "Dormant", "first_weight", "probability",
     kAbove, kDormant, "Mean attention weight that the query tokens give to the first token."},
    {"first_token_weight_ln", "Avg Weight of First Token (LN)", "NormalizedDormant",
     "first_weight / layer_mean(first_weight)", kRatio, kAbove, kPaper,
     "The first token's mean weight over its mean in the layer."},
    {"entropy", "Avg Entropy of Query Distributions", "Entropy", "entropy", "nats", kBelow, kPaper,
     "Mean entropy of the attention distributions of the query tokens."},
    {"entropy_ln", "Avg Entropy of Query Distributions (LN)", "NormalizedEntropy",
     "entropy / layer_mean(entropy)", kRatio, kBelow, kPaper,
     "The mean entropy over its mean in the layer."},
    {"first_value_norm", "First Token Value Vector Norm", "ValueVectorMagnitudeFirstToken",
     "first_value", "activation", kBelow, kPaper,
     "Norm of the first token's value vector; query heads of one KV group share it."},
    {"first_value_norm_ln", "First Token Value Vector Norm (LN)",
     "ValueVectorMagnitudeNormalizedFirstToken", "first_value / layer_mean(first_value)", kRatio,
     kBelow, kPaper, "The first token's value norm over its mean in the layer."},
    {"value_norm", "Avg Value Vector Norm", "ValueVectorAvgMagnitude", "value", "activation",
     kBelow, kPaper, "Mean norm of the value vectors; query heads of one KV group share it."},
    {"value_norm_ln", "Avg Value Vector Norm (LN)", "ValueVectorAvgNormalizedMagnitude",
     "value / layer_mean(value)", kRatio, kBelow, kPaper,
     "The mean value norm over its mean in the layer."},
    {"output_norm", "Avg Head Output Norm", "UnnormalizedHONOR", "output", "activation", kBelow,
     kPaper, "Mean norm of the head's output before W_O."},
    {"output_norm_ln", "Avg Head Output Norm (LN)", "HONOR", "output / layer_mean(output)", kRatio,
     kBelow, kPaper,
     "The mean output norm over its mean in the layer: the paper's best score over many models."},
    {"last_output_norm", "Last Token Head Output Norm", "HeadOutputMagnitudeLastToken",
     "last_output", "activation", kBelow, kPaper,
     "Norm of the head's output at the last token, before W_O."},
    {"last_output_norm_ln", "Last Token Head Output Norm (LN)",
     "HeadOutputMagnitudeNormalizedLastToken", "last_output / layer_mean(output)", kRatio, kBelow,
     kPaper, "The last token's output norm over the layer's mean output norm."},
    {"last_output_norm_hn", "Last Token Head Output Norm (HN)",
     "HeadOutputMagnitudeNormalizedHeadLastToken", "last_output / output",
     "ratio to the head's mean", kBelow, kPaper,
     "The last token's output norm over the same head's mean output norm."},
    {"projected_norm", "Circuit-style Head Output Norm", "FullHeadOutput", "projected",
     "activation", kBelow, kAppendix,
     "Mean norm of what the head adds to the residual stream: its output after W_O."},
    {"projected_norm_ln", "Circuit-style Head Output Norm (LN)", "FullHeadOutputNormalized",
     "projected / layer_mean(projected)", kRatio, kBelow, kAppendix,
     "The norm after W_O over its mean in the layer."},
    {"random", "Random", "Random", "", "uniform in [0, 1)", kBelow, kPaper,
     "A seeded uniform draw for each head and sample: the baseline of every comparison."},
};

std::vector<Score> MakeTable() {
  std::vector<Score> table;
  for (const Entry& entry : kEntries) {
    Score score{entry.id,   entry.paper_name, entry.alias,  entry.formula,
                entry.unit, entry.inactive,   entry.source, entry.description};
    if (*entry.formula != 0) {
      absl::StatusOr<Expression> expression = Expression::Parse(entry.formula);
      if (!expression.ok()) std::abort();  // an entry above does not parse: no program may start
      score.expression = *std::move(expression);
    }
    table.push_back(std::move(score));
  }
  return table;
}

// Levenshtein distance.
int EditDistance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

// The id whose name or alias is near enough to be a typing error, or empty.
std::string_view Nearest(std::string_view name) {
  if (name.size() > 64) return {};
  std::string_view best;
  int best_distance = 1 + static_cast<int>(name.size()) / 3;
  for (const Score& score : Scores()) {
    for (std::string_view known : {std::string_view(score.id), std::string_view(score.alias)}) {
      const int distance = EditDistance(name, known);
      if (distance < best_distance) {
        best_distance = distance;
        best = score.id;
      }
    }
  }
  return best;
}

}  // namespace

std::span<const Score> Scores() {
  static const std::vector<Score>& table = *new std::vector<Score>(MakeTable());
  return table;
}

absl::StatusOr<const Score*> FindScore(std::string_view id_or_alias) {
  for (const Score& score : Scores()) {
    if (score.id == id_or_alias || score.alias == id_or_alias) return &score;
  }
  std::string message = "is not a score of this server";
  if (std::string_view near = Nearest(id_or_alias); !near.empty()) {
    message += "; did you mean '" + std::string(near) + "'?";
  }
  return InvalidField("score", id_or_alias.substr(0, 100), message, "UNKNOWN_SCORE");
}

}  // namespace headcount::catalog
