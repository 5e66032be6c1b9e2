// The configuration file: what is read, what is refused and how the refusal reads.

#include "common/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "common/base/errors.h"
#include "common/base/files.h"

namespace headcount {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(Config, NothingIsRequired) {
  setenv("HOME", "/home/someone", 1);
  const auto config = LoadConfig("");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->state_dir, "/home/someone/.local/state/headcount");
  EXPECT_EQ(config->listen, "127.0.0.1:7433");
  EXPECT_FALSE(config->workers_set);
  EXPECT_TRUE(ParseConfig("# only a comment\n", "f", "/etc").ok());
}

TEST(Config, ReadsEveryKey) {
  setenv("HOME", "/home/someone", 1);
  setenv("HEADCOUNT_TEST_DIR", "/from/environment", 1);
  const auto config = ParseConfig(R"(
state_dir: state
listen: "[::1]:0"
worker_listen: localhost:1
metrics_listen: ""
reflection: false
reflection_everywhere: true
model_roots: [~/models, /srv/models/, $HEADCOUNT_TEST_DIR/models]
task_dirs: [../tasks]
data: {mmlu: /data/mmlu}
workers:
  - device: cuda:1
  - {device: cpu, threads: 3}
worker_program: /opt/headcount-worker
samples_per_unit: 8
rules_per_unit: 2
prompts_per_unit: 7
lease_seconds: 5
task_target_seconds: 7
worker_orphan_exit_seconds: 60
max_queued_jobs: 12
max_rules: 13
max_inline_bytes: 14
usage_half_life_hours: 15
log_level: warn
)",
                                  "f.yaml", "/etc/headcount");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->state_dir, "/etc/headcount/state");
  EXPECT_EQ(config->listen, "[::1]:0");
  EXPECT_EQ(config->worker_listen, "localhost:1");
  EXPECT_EQ(config->metrics_listen, "");
  EXPECT_FALSE(config->reflection);
  EXPECT_TRUE(config->reflection_everywhere);
  EXPECT_THAT(config->model_roots,
              ElementsAre("/home/someone/models", "/srv/models", "/from/environment/models"));
  EXPECT_THAT(config->task_dirs, ElementsAre("/etc/tasks"));
  EXPECT_THAT(config->data, ElementsAre(Pair("mmlu", "/data/mmlu")));
  ASSERT_EQ(config->workers.size(), 2u);
  EXPECT_EQ(config->workers[0].device, "cuda:1");
  EXPECT_EQ(config->workers[1].threads, 3);
  EXPECT_TRUE(config->workers_set);
  EXPECT_EQ(config->worker_program, "/opt/headcount-worker");
  EXPECT_EQ(config->samples_per_unit, 8);
  EXPECT_EQ(config->rules_per_unit, 2);
  EXPECT_EQ(config->prompts_per_unit, 7);
  EXPECT_EQ(config->lease, std::chrono::seconds(5));
  EXPECT_EQ(config->task_target, std::chrono::seconds(7));
  EXPECT_EQ(config->worker_orphan_exit, std::chrono::seconds(60));
  EXPECT_EQ(config->max_queued_jobs, 12);
  EXPECT_EQ(config->max_rules, 13);
  EXPECT_EQ(config->max_inline_bytes, 14);
  EXPECT_EQ(config->usage_half_life, std::chrono::hours(15));
  EXPECT_EQ(config->log_level, "warn");

  // What headcountd writes for its workers says the same.
  const std::string yaml = ConfigToYaml(*config);
  const auto again = ParseConfig(yaml, "again", "/elsewhere");
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << yaml;
  EXPECT_EQ(ConfigToYaml(*again), yaml);
  EXPECT_EQ(again->data, config->data);
  EXPECT_EQ(again->model_roots, config->model_roots);
  EXPECT_EQ(again->workers.size(), 2u);
}

TEST(Config, RoundTripKeepsUnsetWorkersAndOddFolders) {
  Config config = *LoadConfig("");
  config.model_roots = {"/with space/and: colon", "/quote\"d # not a comment"};
  auto again = ParseConfig(ConfigToYaml(config), "f", "/");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->model_roots, config.model_roots);
  EXPECT_FALSE(again->workers_set);
  config.workers_set = true;
  again = ParseConfig(ConfigToYaml(config), "f", "/");
  EXPECT_TRUE(again->workers_set);
  EXPECT_TRUE(again->workers.empty());
}

TEST(Config, TheShippedExampleHoldsTheDefaults) {
  setenv("HOME", "/home/someone", 1);
  const auto example = LoadConfig("deploy/headcount.yaml");
  ASSERT_TRUE(example.ok()) << example.status();
  EXPECT_EQ(ConfigToYaml(*example), ConfigToYaml(*LoadConfig("")));
  // Every key that ConfigToYaml writes stands in the example, set or as a comment.
  Config all = *example;
  all.workers_set = true;
  all.worker_program = "/x";
  const std::string text = *ReadFile("deploy/headcount.yaml");
  const std::string yaml = ConfigToYaml(all);
  size_t at = 0;
  while (at < yaml.size()) {
    const size_t end = yaml.find('\n', at);
    const std::string line = yaml.substr(at, end - at);
    if (!line.empty() && line[0] != ' ') {
      const std::string key = line.substr(0, line.find(':') + 1);
      const bool set = text.find("\n" + key) != std::string::npos;
      EXPECT_THAT(text, HasSubstr(std::string(set ? "\n" : "\n# ") + key));
    }
    at = end + 1;
  }
}

struct Bad {
  const char* yaml;
  const char* field;
  const char* message;  // a part of it
};

class BadConfig : public ::testing::TestWithParam<Bad> {};

TEST_P(BadConfig, NamesFileKeyAndLimit) {
  const auto config = ParseConfig(GetParam().yaml, "the-file.yaml", "/etc");
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << config.status();
  EXPECT_EQ(FieldOf(config.status()), GetParam().field) << config.status();
  EXPECT_THAT(std::string(config.status().message()), HasSubstr(GetParam().message));
  EXPECT_THAT(std::string(config.status().message()), HasSubstr("the-file.yaml"));
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadConfig,
    ::testing::Values(
        Bad{"listne: 1:2", "listne", "listen"}, Bad{"{", "file", "not YAML"},
        Bad{"- a", "file", "map"}, Bad{"just text", "file", "map"},
        Bad{"listen: a:1\nlisten: b:1", "listen", "twice"}, Bad{"listen: [a]", "listen", "a list"},
        Bad{"listen: localhost", "listen", "host:port"},
        Bad{"listen: localhost:65536", "listen", "65535"},
        Bad{"listen: localhost:-1", "listen", "host:port"},
        Bad{"listen: ''", "listen", "host:port"},
        Bad{"worker_listen: 'a b:1'", "worker_listen", "host:port"},
        Bad{"metrics_listen: unix:/tmp/x", "metrics_listen", "host:port"},
        Bad{"reflection: yes", "reflection", "true or false"},
        Bad{"reflection: 1", "reflection", "true or false"},
        Bad{"state_dir: ''", "state_dir", "empty"}, Bad{"state_dir: ~root/x", "state_dir", "~user"},
        Bad{"state_dir: $HEADCOUNT_SURELY_UNSET/x", "state_dir", "HEADCOUNT_SURELY_UNSET"},
        Bad{"model_roots: /srv", "model_roots", "list"},
        Bad{"model_roots: [a, [b]]", "model_roots[1]", "text"},
        Bad{"model_roots: ['']", "model_roots[0]", "empty"}, Bad{"data: [a]", "data", "map"},
        Bad{"data: {../x: /a}", "data.../x", "letters"},
        Bad{"data: {a: /x, a: /y}", "data.a", "twice"}, Bad{"workers: cpu", "workers", "list"},
        Bad{"workers: [cpu]", "workers[0]", "device"},
        Bad{"workers: [{device: gpu}]", "workers[0].device", "cpu or cuda:N"},
        Bad{"workers: [{threads: 1}]", "workers[0].device", "cpu or cuda:N"},
        Bad{"workers: [{device: cpu}, {device: cpu}]", "workers[1].device", "twice"},
        Bad{"workers: [{device: cpu, threads: -1}]", "workers[0].threads", "-1"},
        Bad{"workers: [{device: cpu, threads: 1025}]", "workers[0].threads", "1024"},
        Bad{"workers: [{device: cpu, thread: 1}]", "workers[0].thread", "threads"},
        Bad{"samples_per_unit: 0", "samples_per_unit", "1 to 256"},
        Bad{"samples_per_unit: 257", "samples_per_unit", "1 to 256"},
        Bad{"samples_per_unit: 3.5", "samples_per_unit", "whole number"},
        Bad{"samples_per_unit: 0x10", "samples_per_unit", "whole number"},
        Bad{"samples_per_unit: 4294967297", "samples_per_unit", "4294967297"},
        Bad{"samples_per_unit: 99999999999999999999", "samples_per_unit", "whole number"},
        Bad{"samples_per_unit: .nan", "samples_per_unit", "whole number"},
        Bad{"rules_per_unit: 65", "rules_per_unit", "1 to 64"},
        Bad{"prompts_per_unit: 257", "prompts_per_unit", "1 to 256"},
        Bad{"lease_seconds: 1", "lease_seconds", "2 to 3600"},
        Bad{"lease_seconds: 30s", "lease_seconds", "whole number"},
        Bad{"task_target_seconds: 0", "task_target_seconds", "1 to 3600"},
        Bad{"worker_orphan_exit_seconds: 0", "worker_orphan_exit_seconds", "1 to"},
        Bad{"max_queued_jobs: 0", "max_queued_jobs", "1 to"},
        Bad{"max_rules: 6001", "max_rules", "6000"},
        Bad{"max_inline_bytes: 3145729", "max_inline_bytes", "3145728"},
        Bad{"usage_half_life_hours: 0", "usage_half_life_hours", "1 to"},
        Bad{"log_level: loud", "log_level", "trace"}));

TEST(Config, MissingFileIsNotFoundWithItsPath) {
  const auto config = LoadConfig("/nowhere/headcount.yaml");
  EXPECT_EQ(config.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(config.status().message()), HasSubstr("/nowhere/headcount.yaml"));
}

TEST(Config, FlagsAreCheckedLikeTheFile) {
  Config config = *LoadConfig("");
  EXPECT_TRUE(CheckConfig(config).ok());
  config.listen = "nonsense";
  EXPECT_EQ(FieldOf(CheckConfig(config)), "listen");
}

}  // namespace
}  // namespace headcount
