// Each option of zero changes the policy that the engine follows, or is refused in words.
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "plugins/strategies/zero/zero.cc"

namespace {

strategy::ShardPolicy policy_of(const std::vector<std::pair<std::string, config::Value>>& entries) {
  config::Section section{"strategy.zero", {}, {}};
  for (const auto& [key, value] : entries)
    section.entries.push_back({key, value, {config::Origin::Layer::file, "a.toml", 7}});
  Diagnostics diagnostics;
  Zero plugin{{section, diagnostics}};
  diagnostics.throw_if_any();
  strategy::ShardPolicy policy;
  plugin.shard(policy);
  return policy;
}

std::string error_of(const std::string& table) {
  try {
    testing::train({.world = 2, .config = "[strategy.zero]\n" + table, .steps = 1});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("stages cut optimizer state, then gradients, then parameters") {
  for (const std::int64_t stage : {0, 1, 2, 3}) {
    const auto policy = policy_of({{"stage", stage}});
    CHECK(policy.shard_optim == (stage >= 1));
    CHECK(policy.shard_grad == (stage >= 2));
    CHECK(policy.shard_param == (stage >= 3));
    CHECK(policy.owner == "zero");
  }
}

TEST_CASE("other options reach the policy") {
  const auto joined = policy_of({{"bucket_size", std::int64_t{1000}}}).bucket_size;
  CHECK(joined.by == strategy::BucketSize::By::at_most);
  CHECK(joined.number == 1000);
  CHECK(policy_of({}).bucket_size.by == strategy::BucketSize::By::units);
  CHECK(policy_of({}).overlap);
  const auto alone = policy_of({{"overlap", false}});
  CHECK_FALSE(alone.overlap);
  CHECK_FALSE(alone.forward_prefetch);
  CHECK(alone.backward_prefetch == strategy::BackwardPrefetch::none);
  CHECK(policy_of({{"offload_optimizer", std::string("cpu")}}).offload_optim);
  CHECK_FALSE(policy_of({{"offload_optimizer", std::string("cpu")}}).offload_param);
  CHECK(policy_of({{"offload_param", std::string("cpu")}}).offload_param);
  CHECK_FALSE(policy_of({{"pin_memory", false}}).pin_memory);
  CHECK(policy_of({}).offload_ratio == 1);
  CHECK(policy_of({{"offload_ratio", 0.75}}).offload_ratio == 0.75);
  CHECK(policy_of({{"reduce_dtype", std::string("bf16")}}).reduce_dtype == c10::ScalarType::BFloat16);
}

TEST_CASE("what cannot be is refused, with the line") {
  CHECK_THAT(error_of("stage = 4\n"), Contains("strategy.zero.stage is 4, but must be between 0 and 3"));
  CHECK_THAT(error_of("stage = 0\noffload_optimizer = \"cpu\"\n"),
             Contains("offload_optimizer needs optimizer state that is cut"));
  CHECK_THAT(error_of("stage = 2\noffload_ratio = 0.5\n"),
             Contains("offload_ratio is a share of what is offloaded, and offload_optimizer is \"none\""));
  CHECK_THAT(error_of("stage = 2\noffload_optimizer = \"cpu\"\noffload_ratio = 0.0\n"),
             Contains("strategy.zero.offload_ratio is 0.0, but must be above 0 and at most 1"));
  CHECK_THAT(error_of("stage = 2\noffload_optimizer = \"cpu\"\noffload_param = \"cpu\"\n"),
             Contains("offload_param needs stage 3, and stage is 2"));
  CHECK_THAT(error_of("stage = 3\noffload_param = \"cpu\"\n"), Contains("without offload_optimizer"));
  CHECK_THAT(error_of("reduce_dtype = \"fp16\"\n"), Contains("fp16 needs a GPU"));
}

TEST_CASE("stage 1 accumulates whole gradients by default, stage 2 pieces: the same sums") {
  const auto run = [](const std::string& stage) {
    return testing::train(
        {.world = 2, .config = "[strategy.zero]\nstage = " + stage + "\n", .overrides = {"train.accumulation=2"}});
  };
  CHECK(testing::differences(run("1"), run("2"), 1e-10) == "");
}

TEST_CASE("pin_memory without offload is said to do nothing") {
  const auto notes_of = [](const std::vector<std::pair<std::string, config::Value>>& entries) {
    config::Section section{"strategy.zero", {}, {}};
    for (const auto& [key, value] : entries)
      section.entries.push_back({key, value, {config::Origin::Layer::file, "a.toml", 7}});
    Diagnostics diagnostics;
    const Zero plugin{{section, diagnostics}};
    diagnostics.throw_if_any();
    return plugin.notes();
  };
  for (const std::int64_t stage : {0, 1, 2, 3}) {
    CHECK(notes_of({{"stage", stage}, {"pin_memory", true}}) ==
          std::vector<std::string>{"note: strategy.zero.pin_memory has no effect without offload_optimizer = \"cpu\""});
    CHECK(notes_of({{"stage", stage}}).empty());
  }
  CHECK(
      notes_of({{"stage", std::int64_t{1}}, {"offload_optimizer", std::string("cpu")}, {"pin_memory", true}}).empty());
}
