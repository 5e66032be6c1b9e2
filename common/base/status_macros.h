// Early return for absl::Status and absl::StatusOr (the packaged Abseil has none). No state.

#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define HC_CONCAT_INNER(a, b) a##b
#define HC_CONCAT(a, b) HC_CONCAT_INNER(a, b)

// Returns the status of `expr` from the enclosing function unless it is OK.
#define HC_RETURN_IF_ERROR(expr)           \
  do {                                     \
    absl::Status hc_status = (expr);       \
    if (!hc_status.ok()) return hc_status; \
  } while (false)

// HC_ASSIGN_OR_RETURN(auto value, F()): declares or assigns on success, returns the status
// otherwise.
#define HC_ASSIGN_OR_RETURN(lhs, expr) \
  HC_ASSIGN_OR_RETURN_IMPL(HC_CONCAT(hc_statusor_, __LINE__), lhs, expr)
#define HC_ASSIGN_OR_RETURN_IMPL(var, lhs, expr) \
  auto var = (expr);                             \
  if (!var.ok()) return std::move(var).status(); \
  lhs = *std::move(var)
