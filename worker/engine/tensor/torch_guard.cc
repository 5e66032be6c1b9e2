// See torch_guard.h.

#include "worker/engine/tensor/torch_guard.h"

#include <exception>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "c10/util/Exception.h"

namespace headcount::engine {
namespace {

absl::Status OutOfMemory(std::string_view what, std::string_view detail) {
  return absl::ResourceExhaustedError(
      absl::StrCat(std::string(what), ": out of memory: ", std::string(detail)));
}

std::string FirstLine(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

// The CPU allocator reports exhaustion as a plain c10::Error, by its text alone.
bool SaysOutOfMemory(std::string_view text) {
  return text.find("not enough memory") != std::string_view::npos ||
         text.find("can't allocate memory") != std::string_view::npos ||
         text.find("out of memory") != std::string_view::npos;
}

}  // namespace

absl::Status StatusFromCurrentException(std::string_view what) {
  try {
    throw;
  } catch (const c10::OutOfMemoryError& error) {
    return OutOfMemory(what, FirstLine(error.what_without_backtrace()));
  } catch (const c10::Error& error) {
    const std::string line = FirstLine(error.what_without_backtrace());
    if (SaysOutOfMemory(line)) return OutOfMemory(what, line);
    return absl::InternalError(absl::StrCat(std::string(what), ": ", line));
  } catch (const std::bad_alloc&) {
    return OutOfMemory(what, "std::bad_alloc");
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(std::string(what), ": ", FirstLine(error.what())));
  } catch (...) {
    return absl::InternalError(absl::StrCat(std::string(what), ": an unknown exception"));
  }
}

}  // namespace headcount::engine
