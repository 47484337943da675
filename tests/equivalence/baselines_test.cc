// An objective that needs a mean over the whole step before its gradient, as KTO's distance from the reference
// (Ethayarajh et al. 2024): one rank's losses and gradients on any layout and under any accumulation. The shipped kto
// has the same, of passes over some sequences.
#include <ATen/ATen.h>
#include <capstan/objective.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <string>
#include <utility>
#include <vector>

#include "step/evaluate.h"
#include "support/compositions.h"
#include "support/folder.h"
#include "support/model_folders.h"
#include "testing/tiny.h"

namespace baselines_test {

using namespace capstan;
using namespace capstan::testing;
using capstan::testing::train;  // capstan::train is a namespace, too

namespace {

constexpr std::int64_t steps = 3;
constexpr double tolerance = 1e-10, beta = 2;

struct KtoOptions {
  std::string baseline = "step";
  bool some_sequences = false;
  static void describe(config::OptionTable<KtoOptions>& t) {
    t.add("baseline", &KtoOptions::baseline).doc("");
    t.add("some_sequences", &KtoOptions::some_sequences).doc("");
  }
};

// A sample is a completion, which is desirable or not, and one that is another prompt's: their mean log-ratio of policy
// and reference is the baseline. Passes go over all sequences, or over those whose numbers are used.
class Kto : public objective::Objective {
 public:
  explicit Kto(config::Options<KtoOptions> options) : options_(std::move(options)) {}

  objective::Plan plan() const override {
    using data::FieldSpec;
    const auto output = nn::HeadOutput::log_probabilities;
    objective::Plan plan;
    plan.passes = {{"policy", output}, {"policy before", output, false}, {"reference", output, false, false}};
    if (options_->some_sequences) {
      plan.passes[0].sequences = {0};
      plan.passes[1].sequences = {1};
      plan.passes[2].sequences = {0, 1};
    }
    plan.counts = {"completions"};
    plan.terms = {{1.0, 0}};
    plan.figures = {{"distance", 0}};
    plan.sequences = 2;
    plan.fields = {{"desirable", FieldSpec::Type::int64, FieldSpec::Per::sample}};
    plan.baselines = {{"distance", 0}};
    return plan;
  }

  std::vector<double> counts(const data::HostBatch& batch) const override {
    return {static_cast<double>(batch.real_samples)};
  }

  std::vector<at::Tensor> baselines(const objective::Others& others, const nn::Batch& batch) const override {
    return {distance(others.outputs, batch)};
  }

  objective::Sums sums(const std::vector<at::Tensor>& outputs, const nn::Batch& batch) const override {
    auto baseline = batch.pass.baselines[0];
    if (options_->baseline == "micro-batch") baseline = distance(outputs, batch) / batch.has_sample().sum();
    const auto ratio = this->ratio(0, outputs[0], outputs[2], batch);
    const auto sign = batch.field("desirable").remainder(2) * 2 - 1;
    const auto real = batch.has_sample();
    return {{((1 - (beta * sign * (ratio - baseline)).sigmoid()) * real).sum()}, {(baseline * real).sum()}};
  }

 private:
  // [samples]: of each sample's `sequence`.
  at::Tensor ratio(std::int64_t sequence, const at::Tensor& policy, const at::Tensor& reference,
                   const nn::Batch& batch) const {
    const auto of_pair = [&](const at::Tensor& sums) {
      return sums.view({batch.samples.count, 2}).select(1, sequence);
    };
    if (options_->some_sequences) return policy - of_pair(reference);
    return of_pair(batch.sum_by_sequence(policy - reference));
  }
  at::Tensor distance(const std::vector<at::Tensor>& outputs, const nn::Batch& batch) const {
    return (ratio(1, outputs[1], outputs[2], batch) * batch.has_sample()).sum().detach();
  }

  config::Options<KtoOptions> options_;
};

const std::string tables =
    "[data]\nsequences = 2\nfields = [\"desirable int64 sample\"]\n[objective]\nplugin = \"kto\"\n"
    "[strategy.lora]\nrank = 3\nalpha = 5\ninit = \"random\"\ntargets = [\"linear_qkv\", \"linear_proj\"]\n";
const std::string two_stages = "[strategy.pipeline_parallel]\nsize = 2\n";

plugin::Registration kto() { return type<objective::Objective, Kto, KtoOptions>("objective", "kto"); }

TrainResult learnt(int world, const std::string& strategies, const std::vector<std::string>& overrides) {
  return train({.world = world,
                .config = family_config(dense()) + tables + strategies,
                .overrides = overrides,
                .steps = steps,
                .types = {kto()}});
}

const TrainResult& alone() {
  static const auto run = learnt(1, "", {same_micro_steps});
  return run;
}

// The loss and the figure of the training data, `batch` samples at a time.
std::vector<double> evaluated(int world, const std::string& strategies, int batch, const std::string& more = {}) {
  const test::Folder folder;
  setup::JobRequest request;
  request.file =
      folder.write("a.toml", "[run]\nseed = 3\ndevice = \"cpu\"\n" + family_config(dense()) + tables + strategies);
  request.overrides = {"data.plugin=tiny",      "data.samples=24",      "train.max_steps=1",
                       "train.global_batch=24", "train.precision=fp64", cat("train.eval_batch=", batch)};
  if (!more.empty()) request.overrides.push_back(more);
  request.world_size = world;
  std::vector<double> found;
  comm::run_in_process(world, [&](comm::Communicator& communicator) {
    auto mine = request;
    mine.rank = communicator.world().rank;
    plugin::Host host;
    host.add(tiny_data());
    host.add(kto());
    const auto job = job_of(mine, host);
    auto session = step::materialise(job, communicator);
    const step::Feed feed(job);
    const auto result = step::Evaluator(session, feed).loss(*job.samples.train);
    if (mine.rank == 0) found = {result.loss, result.scores.at(0).second};
  });
  return found;
}

}  // namespace

TEST_CASE("float64: a step's baseline is the same for any accumulation, and that of the samples together", "[train]") {
  for (const auto* packing : {"data.packing=false", "data.packing=true"}) {
    INFO(packing);
    for (const auto* accumulation : {"train.accumulation=1", "train.accumulation=8"})
      CHECK(differences(learnt(1, "", {accumulation, packing}), alone(), tolerance) == "");
  }
  const std::string own = "objective.baseline=micro-batch";
  CHECK(differences(learnt(1, "", {"train.accumulation=1", own}), alone(), tolerance) == "");
  CHECK(differences(learnt(1, "", {same_micro_steps, own}), alone(), 1e-6) != "");
}

TEST_CASE("float64: a step's baseline is the same on any layout", "[matrix][train]") {
  for (const auto& layout : compositions()) {
    if (layout.needs_experts || layout.world == 1) continue;
    INFO(layout.name);
    CHECK(differences(learnt(layout.world, layout.strategies, {same_micro_steps}), alone(), tolerance) == "");
  }
  for (const auto* strategies : {"[strategy.fsdp]\n", "[strategy.tensor_parallel]\nsize = 2\n"}) {
    INFO("pipeline, " << strategies);
    CHECK(differences(learnt(4, two_stages + strategies, {same_micro_steps}), alone(), tolerance) == "");
  }
  CHECK(differences(learnt(4, "[strategy.fsdp]\n", {same_micro_steps}), alone(), tolerance) == "");
}

TEST_CASE("float64: passes over some sequences give what passes over all give of them, on any layout",
          "[matrix][train]") {
  // A mask is drawn by a sequence's number among those of its batch.
  const std::string some = "objective.some_sequences=true", no_masks = "model.attention_dropout=0";
  const auto all = learnt(1, "", {same_micro_steps, no_masks});
  for (const auto* packing : {"data.packing=false", "data.packing=true"}) {
    for (const auto* accumulation : {"train.accumulation=1", "train.accumulation=8"}) {
      INFO(packing << ", " << accumulation);
      CHECK(differences(learnt(1, "", {accumulation, packing, some, no_masks}), all, tolerance) == "");
    }
  }
  for (const auto& layout : compositions()) {
    if (layout.needs_experts || layout.world == 1) continue;
    INFO(layout.name);
    CHECK(differences(learnt(layout.world, layout.strategies, {same_micro_steps, some, no_masks}), all, tolerance) ==
          "");
  }
  for (const auto* strategies : {"[strategy.fsdp]\n", "[strategy.tensor_parallel]\nsize = 2\n"}) {
    INFO("pipeline, " << strategies);
    CHECK(differences(learnt(4, two_stages + strategies, {same_micro_steps, some, no_masks, "data.packing=true"}), all,
                      tolerance) == "");
  }
}

TEST_CASE("an evaluation's baseline is that of the whole split", "[train]") {
  const auto expected = evaluated(1, "", 24);
  REQUIRE(expected.size() == 2);
  CHECK(std::abs(expected[1]) > 1e-3);
  for (const auto& [world, strategies] : std::vector<std::pair<int, std::string>>{
           {1, ""}, {2, "[strategy.fsdp]\n"}, {4, two_stages + "[strategy.fsdp]\n"}}) {
    INFO(world << " ranks " << strategies);
    for (const auto* passes : {"", "objective.some_sequences=true"}) {
      const auto found = evaluated(world, strategies, 5, passes);
      for (std::size_t i = 0; i < 2; ++i) CHECK(found.at(i) == Approx(expected[i]).epsilon(1e-12));
    }
  }
}

}  // namespace baselines_test
