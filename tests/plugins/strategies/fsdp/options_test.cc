// Each option of fsdp changes the policy that the engine follows, or is refused in words.
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "plugins/strategies/fsdp/fsdp.cc"

namespace options_test {

namespace {

strategy::ShardPolicy policy_of(const std::vector<std::pair<std::string, config::Value>>& entries) {
  config::Section section{"strategy.fsdp", {}, {}};
  for (const auto& [key, value] : entries)
    section.entries.push_back({key, value, {config::Origin::Layer::file, "a.toml", 7}});
  Diagnostics diagnostics;
  Fsdp plugin{{section, diagnostics}};
  diagnostics.throw_if_any();
  strategy::ShardPolicy policy;
  plugin.shard(policy);
  return policy;
}

std::string error_of(const std::string& table, const std::string& more = {}) {
  try {
    testing::train({.world = 4, .config = "[strategy.fsdp]\n" + table + more, .steps = 1});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("modes") {
  for (const std::string mode : {"full_shard", "shard_grad_op", "hybrid_shard", "no_shard"}) {
    INFO(mode);
    const auto policy = policy_of({{"mode", mode}});
    const bool cut = mode != "no_shard";
    CHECK(policy.shard_param == cut);
    CHECK(policy.shard_grad == cut);
    CHECK(policy.shard_optim == cut);
    CHECK(policy.reshard_after_forward == (mode != "shard_grad_op"));
    CHECK(policy.owner == "fsdp");
  }
}

TEST_CASE("hybrid_shard splits data parallelism into copies; a size that does not divide is refused") {
  for (const std::int64_t size : {0, 2, 4}) {
    config::Section section{"strategy.fsdp", {}, {}};
    section.entries.push_back({"mode", std::string("hybrid_shard"), {}});
    section.entries.push_back({"shard_size", size, {}});
    Diagnostics diagnostics;
    Fsdp plugin{{section, diagnostics}};
    layout::MeshSpec spec(8, 4);
    plugin.mesh(spec);
    const auto mesh = layout::resolve(spec, diagnostics);
    CHECK(diagnostics.empty());
    CHECK(mesh.size(layout::Axis::dp) == (size == 0 ? 4 : size));
    CHECK(mesh.size(layout::Axis::replicate) == 8 / (size == 0 ? 4 : size));
  }
  CHECK_THAT(error_of("mode = \"hybrid_shard\"\nshard_size = 3\n"),
             Contains("keeps one copy of the parameters on 3 ranks, but dp = 4 is no multiple of it"));
}

TEST_CASE("options of time and memory reach the policy") {
  CHECK(policy_of({{"wrap", std::int64_t{3}}}).bucket_size.number == 3);
  const auto joined = policy_of({{"min_num_params", std::int64_t{5000}}}).bucket_size;
  CHECK(joined.by == strategy::BucketSize::By::at_least);
  CHECK(joined.number == 5000);
  CHECK_THAT(error_of("wrap = 2\nmin_num_params = 5000\n"),
             Contains("strategy.fsdp.min_num_params and strategy.fsdp.wrap both say"));
  CHECK_FALSE(policy_of({{"reshard_after_forward", false}}).reshard_after_forward);
  CHECK(policy_of({{"reshard_size", std::int64_t{2}}}).reshard_size == 2);
  CHECK(policy_of({}).backward_prefetch == strategy::BackwardPrefetch::pre);
  CHECK(policy_of({{"backward_prefetch", std::string("post")}}).backward_prefetch == strategy::BackwardPrefetch::post);
  CHECK(policy_of({{"backward_prefetch", std::string("none")}}).backward_prefetch == strategy::BackwardPrefetch::none);
  CHECK_FALSE(policy_of({{"forward_prefetch", false}}).forward_prefetch);
  CHECK_FALSE(policy_of({{"limit_all_gathers", false}}).limit_all_gathers);
  CHECK(policy_of({{"sync_module_states", true}}).sync_module_states);
  CHECK_FALSE(policy_of({}).sync_module_states);
  CHECK(policy_of({{"cpu_offload", true}}).offload_param);
  CHECK(policy_of({{"cpu_offload", true}}).offload_optim);
  CHECK_FALSE(policy_of({{"pin_memory", false}}).pin_memory);
  CHECK_FALSE(policy_of({}).param_dtype.has_value());
  CHECK(policy_of({{"param_dtype", std::string("bf16")}}).param_dtype == c10::ScalarType::BFloat16);
  CHECK(policy_of({{"reduce_dtype", std::string("fp32")}}).reduce_dtype == c10::ScalarType::Float);
}

TEST_CASE("units that are joined by size learn what one rank learns") {
  const auto reference = testing::train({.steps = 4});
  for (const std::string least : {"1", "3000", "1000000000"}) {
    INFO(least);
    const auto run =
        testing::train({.world = 2, .config = "[strategy.fsdp]\nmin_num_params = " + least + "\n", .steps = 4});
    CHECK(testing::differences(run, reference, 1e-10) == "");
  }
}

TEST_CASE("param_dtype and reduce_dtype change what is computed") {
  const auto exact =
      testing::train({.world = 2, .config = "[strategy.fsdp]\n", .overrides = {"train.precision=fp32"}, .steps = 3});
  for (const std::string option : {"param_dtype", "reduce_dtype"}) {
    const auto rounded = testing::train({.world = 2,
                                         .config = "[strategy.fsdp]\n" + option + " = \"bf16\"\n",
                                         .overrides = {"train.precision=fp32"},
                                         .steps = 3});
    INFO(option);
    // bfloat16 keeps 8 bits: a change, and a small one.
    CHECK(testing::differences(rounded, exact, 1e-5) != "");
    CHECK(rounded.losses.front() == Approx(exact.losses.front()).epsilon(0.02));
  }
}

TEST_CASE("what would have no effect is refused, with the line") {
  CHECK_THAT(error_of("shard_size = 2\n"),
             Contains(":") && Contains("shard_size has no effect with mode = \"full_shard\""));
  CHECK_THAT(error_of("mode = \"no_shard\"\nreshard_size = 2\n"), Contains("reshard_size has no effect"));
  CHECK_THAT(error_of("mode = \"no_shard\"\ncpu_offload = true\n"), Contains("cpu_offload = true has no effect"));
  CHECK_THAT(error_of("reshard_size = 1\n"),
             Contains("reshard_size is 1") && Contains("set reshard_after_forward = false"));
  CHECK_THAT(error_of("reshard_size = 3\n"), Contains("reshard_size is 3, but parameters are cut over 4 ranks"));
  CHECK_THAT(error_of("param_dtype = \"fp16\"\n"),
             Contains("fp16 needs a GPU") && Contains("without fp16's loss scale"));
  CHECK_THAT(error_of("", "[strategy.zero]\n"), Contains("parameter storage") && Contains("fsdp") && Contains("zero"));
}

TEST_CASE("offloading more than the host has is refused before anything is allocated") {
  CHECK_THAT(error_of("cpu_offload = true\n", "[run]\nhost_memory = 1e-6\n"),
             Contains("training on CPUs needs") && Contains("for the 4 ranks of a node"));
}

TEST_CASE("options that do nothing in a mode are said") {
  const auto notes_of = [](const std::vector<std::pair<std::string, config::Value>>& entries) {
    config::Section section{"strategy.fsdp", {}, {}};
    for (const auto& [key, value] : entries)
      section.entries.push_back({key, value, {config::Origin::Layer::file, "a.toml", 7}});
    Diagnostics diagnostics;
    const Fsdp plugin{{section, diagnostics}};
    diagnostics.throw_if_any();
    return plugin.notes();
  };
  const auto nothing_gathered = [](const std::string& key) {
    return "note: strategy.fsdp." + key + " has no effect with mode = \"no_shard\": nothing is gathered";
  };
  const config::Value no_shard = std::string("no_shard");
  for (const std::string key : {"forward_prefetch", "limit_all_gathers", "reshard_after_forward"}) {
    CHECK(notes_of({{"mode", no_shard}, {key, true}}) == std::vector<std::string>{nothing_gathered(key)});
    CHECK(notes_of({{key, true}}).empty());
  }
  CHECK(notes_of({{"mode", no_shard}, {"backward_prefetch", std::string("post")}}) ==
        std::vector<std::string>{nothing_gathered("backward_prefetch")});
  CHECK(notes_of({{"pin_memory", true}}) ==
        std::vector<std::string>{"note: strategy.fsdp.pin_memory has no effect without cpu_offload = true"});
  CHECK(notes_of({{"pin_memory", false}, {"cpu_offload", true}}).empty());
  CHECK(notes_of({{"mode", no_shard}}).empty());  // only what somebody wrote
  const config::Value grad_op = std::string("shard_grad_op"), post = std::string("post");
  const std::string stay = ": gathered parameters stay from forward to backward";
  CHECK(notes_of({{"mode", grad_op}, {"reshard_after_forward", true}, {"backward_prefetch", post}}) ==
        std::vector<std::string>{
            R"(note: strategy.fsdp.reshard_after_forward = true has no effect with mode = "shard_grad_op")" + stay,
            R"(note: strategy.fsdp.backward_prefetch has no effect with mode = "shard_grad_op")" + stay});
  CHECK(notes_of({{"mode", grad_op}}).empty());
  CHECK(notes_of({{"reshard_after_forward", false}, {"backward_prefetch", post}}) ==
        std::vector<std::string>{"note: strategy.fsdp.backward_prefetch has no effect with reshard_after_forward = "
                                 "false" +
                                 stay});
  // Buckets are all-reduced whole: this one counts in every mode.
  CHECK(notes_of({{"mode", no_shard}, {"wrap", std::int64_t{2}}}).empty());
}

}  // namespace options_test
