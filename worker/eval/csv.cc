// See csv.h.

#include "worker/eval/csv.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace headcount::eval {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (text_.starts_with(kByteOrderMark)) text_.remove_prefix(kByteOrderMark.size());
  }

  absl::StatusOr<std::vector<std::vector<std::string>>> Rows() {
    std::vector<std::vector<std::string>> rows;
    while (at_ < text_.size()) {
      if (SkipLineEnd()) continue;  // a blank line
      std::vector<std::string> row;
      do {
        std::string field;
        absl::Status status = Field(&field);
        if (!status.ok()) return status;
        row.push_back(std::move(field));
      } while (SkipComma());
      SkipLineEnd();
      rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  bool AtFieldEnd() const {
    return at_ == text_.size() || text_[at_] == ',' || text_[at_] == '\n' || text_[at_] == '\r';
  }
  bool SkipComma() {
    if (at_ == text_.size() || text_[at_] != ',') return false;
    ++at_;
    return true;
  }
  bool SkipLineEnd() {
    if (at_ == text_.size() || (text_[at_] != '\n' && text_[at_] != '\r')) return false;
    at_ += text_.substr(at_).starts_with("\r\n") ? 2 : 1;
    ++line_;
    return true;
  }

  absl::Status Field(std::string* field) {
    if (at_ < text_.size() && text_[at_] == '"') return QuotedField(field);
    const size_t begin = at_;
    while (!AtFieldEnd()) ++at_;
    field->assign(text_.substr(begin, at_ - begin));
    return absl::OkStatus();
  }

  absl::Status QuotedField(std::string* field) {
    const int opened = line_;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] != '"') {
        if (text_[at_] == '\n') ++line_;
        field->push_back(text_[at_]);
      } else if (text_.substr(at_).starts_with("\"\"")) {
        field->push_back('"');
        ++at_;
      } else {
        ++at_;
        if (AtFieldEnd()) return absl::OkStatus();
        return absl::InvalidArgumentError(
            absl::StrCat("line ", line_, ": text after the closing quote of a field"));
      }
    }
    return absl::InvalidArgumentError(
        absl::StrCat("line ", opened, ": a quote is opened and never closed"));
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

absl::StatusOr<std::vector<std::vector<std::string>>> ParseCsv(std::string_view text) {
  return Parser(text).Rows();
}

}  // namespace headcount::eval
