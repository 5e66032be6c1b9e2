// Identifiers, injected, so that tests know them. Thread-safe.

#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace headcount {

class IdGenerator {
 public:
  virtual ~IdGenerator() = default;
  // A random UUID version 4, lower case with dashes.
  virtual std::string Uuid() = 0;
  // A short name for people, unique with overwhelming probability: 10 lower-case letters and
  // digits, first a letter.
  virtual std::string ShortId() = 0;

  static IdGenerator& System();
};

// "id-1", "id-2", ...
class CountingIds final : public IdGenerator {
 public:
  std::string Uuid() override;
  std::string ShortId() override;

 private:
  std::atomic<int> next_ = 1;
};

// INVALID_ARGUMENT unless `value` can name a resource: 1 to 100 of [A-Za-z0-9._-], starting with a
// letter or digit, and without "..". So a name can never leave a folder. `field` names it in the
// error.
absl::Status CheckResourceId(std::string_view field, std::string_view value);

// OK for a model's name: a resource id, or two with a "/" between, as the Hugging Face hub has
// them.
absl::Status CheckModelName(std::string_view field, std::string_view value);

}  // namespace headcount
