// How a child job is called after its parent: planner and results agree on it here. Pure.

#pragma once

#include <string>

namespace headcount::results {

// "projects/default/jobs/abc" and 0 -> "projects/default/jobs/abc-1".
inline std::string ChildName(const std::string& parent, int index) {
  return parent + "-" + std::to_string(index + 1);
}

}  // namespace headcount::results
