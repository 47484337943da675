// The same run on one rank and on several processes over Gloo. The full matrix runs on ranks that are threads
// (tests/train); this is the cut of it that goes through the program, its launcher, and what it writes.
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "end_to_end/program.h"
#include "end_to_end/results.h"
#include "support/sharding_cases.h"

namespace ranks_test {

using namespace end_to_end;
using capstan::cat;

namespace {

// float64 sums in another order differ by some 1e-16 a term; over 4 steps nothing comes near this.
constexpr double tolerance = 1e-10;

// Two epochs of two steps.
std::string config(const std::string& more = {}) {
  return small_config({{"max_steps", "max_steps = 4"},
                       {"micro_batch", ""},
                       {"global_batch", "global_batch = 48"},
                       {"dropout", "dropout = 0.1"}},
                      more);
}

struct Result {
  Metrics metrics;
  Json summary;
  std::map<std::string, at::Tensor> weights;
};

Result run(const Workspace& work, const std::string& name, int ranks, std::vector<std::string> overrides,
           const std::string& strategy) {
  const auto file = work.write(name + ".toml", config(strategy));
  overrides.insert(overrides.begin(), {"run", file, "run.name=" + name});
  overrides.insert(overrides.end(), {"-n", std::to_string(ranks)});
  const auto ran = work.run(overrides);
  INFO(ran.all());
  REQUIRE(ran.code == 0);
  CHECK(ran.err.empty());
  const auto folder = work.folder() / "runs" / name;
  for (int rank = 0; rank < ranks; ++rank) CHECK(std::filesystem::exists(folder / "logs" / cat("rank-", rank, ".log")));
  return {read_metrics(folder), read_json(folder / "summary.json"), read_weights(folder)};
}

std::string fsdp(const std::string& mode) { return "[strategy.fsdp]\nmode = \"" + mode + "\"\n"; }

void check_same(const Result& a, const Result& reference) {
  CHECK(distance(a.metrics.all("loss"), reference.metrics.all("loss")) < tolerance);
  CHECK(distance(a.metrics.all("grad_norm"), reference.metrics.all("grad_norm")) < tolerance);
  for (const char* key : {"epoch", "lr", "samples", "tokens", "target_tokens"}) {
    INFO(key);
    CHECK(a.metrics.all(key) == reference.metrics.all(key));
  }
  REQUIRE(a.metrics.evaluations.size() == reference.metrics.evaluations.size());
  for (std::size_t i = 0; i < a.metrics.evaluations.size(); ++i) {
    for (const char* key : {"samples", "loss", "exact_match", "f1"}) {
      if (!reference.metrics.evaluations[i].contains(key)) continue;
      INFO("evaluation " << i << " " << key);
      CHECK(a.metrics.evaluations[i].at(key).get<double>() ==
            Approx(reference.metrics.evaluations[i].at(key).get<double>()).epsilon(tolerance).margin(0));
    }
  }
}

}  // namespace

TEST_CASE("float64: one rank without a strategy and 2, 3 and 4 processes have the same losses, norms and evaluations") {
  // Every pair of a number of ranks, a mode and an accumulation.
  const auto [accumulation, modes] = GENERATE(table<std::string, std::vector<std::string>>(
      {{"1", {"full_shard", "no_shard", "full_shard"}}, {"4", {"no_shard", "full_shard", "no_shard"}}}));
  const std::vector<std::string> overrides{"train.precision=fp64", "train.accumulation=" + accumulation,
                                           "train.generate_samples=5", "train.max_new_tokens=6"};
  const Workspace work;
  const auto reference = run(work, "alone", 1, overrides, "");
  REQUIRE(reference.metrics.steps.size() == 4);
  CHECK(reference.summary.at("backend") == "none");
  for (const int world : {2, 3, 4}) {
    const auto& mode = modes[static_cast<std::size_t>(world) - 2];
    INFO("accumulation " << accumulation << " world " << world << " " << mode);
    const auto result = run(work, cat(mode, "-", world), world, overrides, fsdp(mode));
    CHECK(result.summary.at("world_size") == world);
    CHECK(result.summary.at("backend") == "gloo");
    check_same(result, reference);
  }
}

namespace {

// Under `deterministic` these give the bits of no_shard on as many ranks; hybrid sums in two levels and does not.
using Ways = std::map<std::string, std::string>;

const Ways& bit_equal_ways() {
  static const Ways ways{
      {"none", ""},
      {"full_shard", fsdp("full_shard")},
      {"zero-1", "[strategy.zero]\nstage = 1\nbucket_size = 3000\n"},
      {"zero-2-offload", "[strategy.zero]\nstage = 2\noffload_optimizer = \"cpu\"\n"},
      {"zero-3-offload", "[strategy.zero]\nstage = 3\noffload_optimizer = \"cpu\"\noffload_param = \"cpu\"\n"},
      {"shard_grad_op", "[strategy.fsdp]\nmode = \"shard_grad_op\"\nbackward_prefetch = \"post\"\n"},
      {"full-recompute", "[strategy.fsdp]\nwrap = 2\n[strategy.recompute]\n"}};
  return ways;
}

struct Bits {
  int ranks;
  const char* reduce;
  const char* accumulation;
};

void check_bits(const Bits& bits, const Ways& ways, const std::string& monitor = {}) {
  const Workspace work;
  const std::vector<std::string> overrides{"run.deterministic=true", "train.precision=fp32",
                                           cat("train.accumulation=", bits.accumulation),
                                           cat("train.reduce=", bits.reduce)};
  const auto reference = run(work, "reference", bits.ranks, overrides, fsdp("no_shard") + monitor);
  const auto losses = reference.metrics.all("loss");
  CHECK(losses.back() < 0.95 * losses.front());                                         // it has trained
  if (!monitor.empty()) CHECK(reference.metrics.steps.back().at("probe_rank") == 1.0);  // the mean of 0, 1 and 2
  for (const auto& [name, tables] : ways) {
    INFO(bits.ranks << " ranks, reduce " << bits.reduce << ", " << name);
    const auto other = run(work, name, bits.ranks, overrides, tables);
    CHECK(other.metrics.all("loss") == losses);
    CHECK(other.metrics.all("grad_norm") == reference.metrics.all("grad_norm"));
    CHECK(bit_equal(other.weights, reference.weights));
  }
}

Ways some(const std::vector<std::string>& names) {
  Ways ways;
  for (const auto& name : names) ways[name] = bit_equal_ways().at(name);
  return ways;
}

}  // namespace

TEST_CASE(
    "over Gloo, deterministic float32: without a strategy, sharded, in stages, with offload and recompute a run has "
    "the "
    "bits of no_shard, and a monitor's number is the mean over ranks",
    "[shard]") {
  check_bits({2, "micro_step", "2"}, some({"none", "full_shard", "zero-1", "zero-3-offload"}));
  check_bits({3, "step", "1"}, some({"full_shard", "zero-2-offload", "shard_grad_op", "full-recompute"}),
             "[monitor.probe]\npath = \"" + fixture("monitor", "probe") + "\"\n");
  check_bits({4, "micro_step", "4"}, some({"full_shard"}));
}

TEST_CASE("over Gloo: hybrid sharding has the losses of one rank", "[shard]") {
  const Workspace work;
  const auto reference = run(work, "one", 1, {"train.precision=fp64"}, "");
  const auto hybrid =
      run(work, "hybrid", 4, {"train.precision=fp64"}, "[strategy.fsdp]\nmode = \"hybrid_shard\"\nshard_size = 2\n");
  check_same(hybrid, reference);
}

TEST_CASE("over Gloo: all of it on two, three and four processes", "[.][full][shard]") {
  for (const int ranks : {2, 3, 4}) {
    for (const char* reduce : {"step", "micro_step"}) check_bits({ranks, reduce, "2"}, bit_equal_ways());
  }
}

TEST_CASE("over Gloo: a pairwise cover of the sharding matrix", "[.][full][shard]") {
  namespace matrix = capstan::testing;
  const Workspace work;
  const auto alone = run(work, "alone", 1, {"train.precision=fp64", "train.accumulation=2"}, "");
  std::map<std::pair<int, std::size_t>, Result> references;  // fp32, without a strategy
  int count = 0;
  for (const auto& choice : matrix::pairwise(matrix::unscaled_levels(), matrix::sharding_allowed)) {
    auto way = matrix::sharding_case(choice);
    INFO(way.name);
    const auto with = [&](std::initializer_list<const char*> more) {
      auto overrides = way.overrides;
      overrides.insert(overrides.end(), more.begin(), more.end());
      return overrides;
    };
    const std::string name = cat("case-", ++count);
    check_same(run(work, name, way.world, with({"train.precision=fp64"}), way.strategy), alone);
    if (way.hybrid) continue;
    const auto bits = with({"train.precision=fp32", "run.deterministic=true"});
    const std::pair key{way.world, choice[matrix::reduce_]};
    if (references.count(key) == 0) references[key] = run(work, cat("none-", count), way.world, bits, "");
    const auto other = run(work, name + "-bits", way.world, bits, way.strategy);
    CHECK(other.metrics.all("loss") == references.at(key).metrics.all("loss"));
    CHECK(other.metrics.all("grad_norm") == references.at(key).metrics.all("grad_norm"));
    CHECK(bit_equal(other.weights, references.at(key).weights));
  }
}

}  // namespace ranks_test
