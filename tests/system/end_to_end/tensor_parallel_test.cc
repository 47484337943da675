// A model, or its samples' tokens, split over processes that talk over Gloo, through the program and what it writes.
// The full matrices run on ranks that are threads (tests/plugins/strategies/tensor_parallel and context_parallel).
#include <ATen/ATen.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <utility>

#include "end_to_end/program.h"
#include "end_to_end/results.h"
#include "end_to_end/run_to_end.h"

namespace tensor_parallel_test {

using namespace end_to_end;
using capstan::cat;

namespace {

// float64 sums in another order differ by some 1e-16 a term; over 8 steps nothing comes near this.
constexpr double tolerance = 1e-10;

const std::string dropout = "model.attention_dropout=0.1";

struct Result {
  Metrics metrics;
  std::map<std::string, at::Tensor> weights;
};

Result run(const Workspace& work, const std::string& name, int ranks, const std::string& strategy,
           std::vector<std::string> overrides = {dropout}) {
  const auto text = small_config({{"micro_batch", ""},
                                  {"global_batch", "global_batch = 48"},
                                  {"num_heads", "num_heads = 4"},
                                  {"dropout", "dropout = 0.1"}},
                                 strategy);
  overrides.insert(overrides.end(), {"train.precision=fp64", "train.accumulation=2", "train.generate_samples=5",
                                     "train.max_new_tokens=6"});
  auto metrics = run_to_end(work, {.name = name, .ranks = ranks, .config = text, .overrides = std::move(overrides)});
  return {std::move(metrics), read_weights(work.folder() / "runs" / name)};
}

}  // namespace

TEST_CASE(
    "over Gloo: a split model, or one of split samples, has the losses, norms, evaluations and answers of one rank",
    "[tensor_parallel]") {
  const Workspace work;
  const auto reference = run(work, "alone", 1, "");
  REQUIRE(reference.metrics.steps.size() == 8);
  const std::vector<std::pair<int, std::string>> ways{
      {4, "[strategy.tensor_parallel]\nsize = 2\nsequence_parallel = true\n[strategy.fsdp]\n"},
      {4, "[strategy.tensor_parallel]\nsize = 4\nsequence_parallel = true\nvocab_parallel = false\n"},
      {4, "[strategy.context_parallel]\nsize = 2\n[strategy.fsdp]\n"},
      {2, "[strategy.context_parallel]\nsize = 2\nmethod = \"gather\"\n"}};
  for (std::size_t i = 0; i < ways.size(); ++i) {
    INFO(ways[i].second);
    const auto split = run(work, cat("split-", i), ways[i].first, ways[i].second);
    CHECK(distance(split.metrics.all("loss"), reference.metrics.all("loss")) < tolerance);
    CHECK(distance(split.metrics.all("grad_norm"), reference.metrics.all("grad_norm")) < tolerance);
    CHECK(split.metrics.all("tokens") == reference.metrics.all("tokens"));
    REQUIRE(split.metrics.evaluations.size() == reference.metrics.evaluations.size());
    for (std::size_t e = 0; e < split.metrics.evaluations.size(); ++e) {
      for (const char* key : {"samples", "loss", "exact_match", "f1"}) {
        if (!reference.metrics.evaluations[e].contains(key)) continue;
        INFO("evaluation " << e << " " << key);
        CHECK(split.metrics.evaluations[e].at(key).get<double>() ==
              Approx(reference.metrics.evaluations[e].at(key).get<double>()).epsilon(tolerance).margin(0));
      }
    }
    // What was saved is the whole model, without padding.
    CHECK(split.weights.size() == reference.weights.size());
    for (const auto& [name, whole] : reference.weights) {
      INFO(name);
      REQUIRE(split.weights.count(name) == 1);
      CHECK(split.weights.at(name).sizes() == whole.sizes());
      CHECK(at::isfinite(split.weights.at(name)).all().item<bool>());
    }
  }
}

TEST_CASE("over Gloo: keys and values that go around three ranks teach what one rank learns", "[tensor_parallel]") {
  const Workspace work;
  const std::vector<std::string> plain{"model.attention_dropout=0"};
  const auto reference = run(work, "alone", 1, "", plain);
  const auto ring = run(work, "ring", 3, "[strategy.context_parallel]\nsize = 3\nmethod = \"ring\"\n", plain);
  REQUIRE(reference.metrics.steps.size() == 8);
  CHECK(distance(ring.metrics.all("loss"), reference.metrics.all("loss")) < tolerance);
  CHECK(distance(ring.metrics.all("grad_norm"), reference.metrics.all("grad_norm")) < tolerance);
}

// What a rank gets wrong of its columns of packed rows shows here: a position, a document's border, or a row of the
// loss.
TEST_CASE("over Gloo: two ranks that share packed rows learn what one rank learns from a sample a row",
          "[tensor_parallel]") {
  const Workspace work;
  const auto reference = run(work, "alone", 1, "");
  REQUIRE(reference.metrics.steps.size() == 8);
  for (const std::string method : {"gather", "ulysses"}) {
    INFO(method);
    const auto packed = run(work, method, 2, cat("[strategy.context_parallel]\nsize = 2\nmethod = \"", method, "\"\n"),
                            {dropout, "data.packing=true"});
    for (const char* key : {"loss", "grad_norm"})
      CHECK(distance(packed.metrics.all(key), reference.metrics.all(key)) < tolerance);
    for (const char* key : {"samples", "target_tokens"}) CHECK(packed.metrics.all(key) == reference.metrics.all(key));
  }
}

}  // namespace tensor_parallel_test
