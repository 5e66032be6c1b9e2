// What GetCurves has computed of complete rules, so that a curve that is looked at again and again
// while its job runs costs only what is new. Stored chunks never change, so what is complete never
// does either; keys are job uids, which are never used twice. Holds the jobs asked for last.
// Thread-safe. No errors.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "headcount/v1/result_service.pb.h"
#include "server/results/bootstrap.h"
#include "server/results/rule_outcomes.h"

namespace headcount::results {

class CurveCache {
 public:
  explicit CurveCache(size_t most_jobs = 16) : most_jobs_(most_jobs) {}

  // Null where it is not known.
  std::shared_ptr<const RuleOutcomes> Baseline(const std::string& uid);
  void KeepBaseline(const std::string& uid, std::shared_ptr<const RuleOutcomes> baseline);

  // The points of a rule block of the stage, in order.
  std::optional<std::vector<v1::CurvePoint>> Block(const std::string& uid, int64_t block);
  void KeepBlock(const std::string& uid, int64_t block, std::vector<v1::CurvePoint> points);

  // Intervals of a complete job; the last ones asked for. `key` says with which draws, seed and
  // margin.
  std::shared_ptr<const Bootstrap> Intervals(const std::string& uid, const std::string& key);
  void KeepIntervals(const std::string& uid, const std::string& key,
                     std::shared_ptr<const Bootstrap> intervals);

 private:
  struct Entry {
    uint64_t used = 0;
    std::shared_ptr<const RuleOutcomes> baseline;
    std::map<int64_t, std::vector<v1::CurvePoint>> blocks;
    std::string intervals_key;
    std::shared_ptr<const Bootstrap> intervals;
  };

  Entry& Use(const std::string& uid);  // mutex_ is held

  const size_t most_jobs_;
  std::mutex mutex_;
  uint64_t clock_ = 0;
  std::map<std::string, Entry> entries_;
};

}  // namespace headcount::results
