// A model in stages: what each position on pp keeps and computes, and cuts that cannot be.
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "predict/dry_job.h"
#include "support/errors.h"
#include "support/in_stages.h"

namespace stages_test {

using namespace capstan;
using namespace capstan::testing;
using strategy::Action;

namespace {

struct NowhereOptions {
  static void describe(config::OptionTable<NowhereOptions>&) {}
};

// Puts a record where there is no rank.
class Nowhere : public strategy::Strategy {
 public:
  explicit Nowhere(const config::Options<NowhereOptions>&) {}
  void place(nn::Unit& unit, const strategy::Placement&) override {
    for (const auto& weight : unit.weights()) {
      for (auto& record : weight->records()) record.compute.only = {layout::Axis::dp, {2}};
    }
  }
};

job::Job job_in_stages(const std::string& model, const std::string& strategies, int world, int accumulation) {
  plugin::Host host;
  host.add(in_stages());
  host.add(type<strategy::Strategy, Nowhere, NowhereOptions>("strategy", "nowhere"));
  const test::Folder folder;
  setup::JobRequest request;
  request.file = folder.write("job.toml", small(model, "bf16", strategies));
  request.overrides = {cat("train.accumulation=", accumulation)};
  request.device = "cuda";
  request.world_size = world;
  request.activations = true;
  return job_of(request, host);
}

std::vector<predict::MicroStepMemory> dry_runs(const job::Job& job) {
  std::vector<job::Topology> topologies;
  std::vector<shard::EngineOptions> options;
  for (int p = 0; p < job.topology.mesh.size(layout::Axis::pp); ++p) {
    topologies.push_back(job.topology.at_position(p));
    options.push_back(job::engine_options(job.config, topologies.back(), job.samples, *job.model,
                                          c10::Device(c10::DeviceType::CUDA, 0)));
  }
  std::vector<predict::DryRunOf> all;
  for (std::size_t p = 0; p < topologies.size(); ++p)
    all.push_back({job.config, job.plugins, topologies[p], job.samples, options[p], job.frozen});
  return predict::dry_run(all);
}

constexpr std::int64_t state_bytes = rows * length * 64 * 2;  // a hidden state in 16 bits

}  // namespace

TEST_CASE("stages keep together what the whole model keeps, and the states that cross") {
  const auto whole = dry_runs(job_in_stages(llama, "", 1, 4)).front();
  const auto stages = dry_runs(job_in_stages(llama, stages_table("two"), 2, 4));
  REQUIRE(stages.size() == 2);
  CHECK(stages[0].in_flight == 2);
  CHECK(stages[1].in_flight == 1);
  // Both have the micro-batch's tokens, and the second has the states that it received.
  const auto batch = stages[0].kept + stages[1].kept - whole.kept - state_bytes;
  CHECK(batch > 0);
  CHECK(batch < state_bytes / 2);
  CHECK(whole.computed.compute.products.size() > 0);
  auto products = stages[0].computed.compute.products;
  for (const auto& [product, times] : stages[1].computed.compute.products) products[product] += times;
  CHECK((products == whole.computed.compute.products));
}

TEST_CASE("a position keeps the activations of all micro-batches that it has in flight") {
  const auto work = [](const std::string& form, int accumulation, std::size_t position) {
    const auto runs = dry_runs(job_in_stages(llama, stages_table(form), 2, accumulation));
    return std::pair{runs[position].work, runs[position].kept};
  };
  const auto [one, kept] = work("two", 1, 0);
  const auto [two, again] = work("two", 8, 0);
  CHECK(kept == again);
  CHECK(std::abs(two - one - kept) <= 2 * state_bytes);
  // All forwards come first.
  const auto [three, of_first] = work("looped", 3, 0);
  const auto [seven, of_seventh] = work("looped", 7, 0);
  CHECK(of_first == of_seventh);
  CHECK(seven - three > 4 * kept / 2);
}

TEST_CASE("what crosses is counted with its bytes, once, where it is sent") {
  const auto stages = dry_runs(job_in_stages(mixtral, stages_table("two"), 2, 4));
  const auto sent = [&](std::size_t position, Action::Kind kind) {
    std::map<std::int64_t, std::int64_t> bytes;
    for (const auto& [action, work] : stages[position].actions) {
      if (action.kind != kind) continue;
      for (const auto& [transfer, times] : work.waited) bytes[transfer.bytes] += times;
    }
    return bytes;
  };
  // The state, and the routers' sums: tokens of 4 experts, their probabilities, and how many tokens there are.
  const auto states = sent(0, Action::Kind::send_states);
  CHECK(states.at(state_bytes) == 1);
  CHECK(states.size() > 1);
  CHECK(sent(1, Action::Kind::send_gradients).at(state_bytes) == 1);
  CHECK(sent(0, Action::Kind::receive_gradients).empty());
}

TEST_CASE("of what stages carry, gradients are counted where the run sends them") {
  const std::string gemma4 =
      "plugin = \"gemma4\"\nnum_kv_heads = 2\nff_dim = 160\nturned_part = 0.25\nlocal_rope_theta = 1e4\ninputs_width = "
      "6\ninputs_vocab_size = 261\n";
  constexpr std::int64_t carried_bytes = rows * length * 2 * 6 * 2;  // both blocks' inputs, in 16 bits
  const auto sent = [&](const std::string& strategies) {
    const auto stages = dry_runs(job_in_stages(gemma4, stages_table("two") + strategies, 2, 4));
    std::map<std::int64_t, std::int64_t> bytes;
    for (const auto& [action, work] : stages[1].actions) {
      if (action.kind != Action::Kind::send_gradients) continue;
      for (const auto& [transfer, times] : work.waited) bytes[transfer.bytes] += times;
    }
    return bytes;
  };
  CHECK(sent("").contains(carried_bytes));
  CHECK_FALSE(sent(lora).contains(carried_bytes));  // made by the embedding, which is frozen
}

TEST_CASE("a receive only starts a transfer: the columns of the batch that come with it are the forward's work") {
  const auto kernels = [](const std::string& strategies, int world) {
    std::int64_t sum = 0;
    for (const auto& position : dry_runs(job_in_stages(llama, strategies, world, 4))) {
      for (const auto& [action, work] : position.actions) {
        CHECK(action.kind != Action::Kind::receive_states);
        CHECK(action.kind != Action::Kind::receive_gradients);
      }
      sum += position.computed.compute.kernels;
    }
    return sum;
  };
  CHECK(kernels(stages_table("two"), 2) == kernels("", 1));
  // Each position cuts its columns out of the batch, the second where it starts to receive.
  const std::string cut = "[strategy.context_parallel]\nsize = 2\n";
  CHECK(kernels(stages_table("two") + cut, 4) > kernels(cut, 2));
}

TEST_CASE("check reports the position that takes most memory, and what the others take") {
  const auto job = job_in_stages(llama, stages_table("two"), 2, 4);
  const auto& prediction = job.prediction;
  INFO(prediction.stages_note << prediction.activations_note);
  REQUIRE(prediction.works.size() == 2);
  const auto parameters = [&](std::size_t position) {
    std::int64_t sum = 0;
    for (const auto* unit : job.model->units_of(job.model->stages_at(static_cast<int>(position)))) {
      for (const auto& weight : unit->weights()) sum += weight->numel();
    }
    return sum;
  };
  for (const std::size_t position : {0, 1}) {
    CHECK_THAT(prediction.stages_note,
               Contains(cat("pp ", position, " (", thousands(parameters(position)), " parameters)")));
  }
  CHECK_THAT(prediction.stages_note, Contains("; above is pp "));
  CHECK_THAT(prediction.activations_note, Contains("in flight; the peak is in"));
  CHECK_THAT(job.text(), Contains(prediction.stages_note));
  const auto always = [&](const char* part) {
    std::int64_t bytes = 0;
    for (const auto& one : prediction.footprints) bytes += one.part == part ? one.bytes : 0;
    return bytes;
  };
  const auto above = prediction.stages_note.ends_with("pp 1") ? std::size_t{1} : std::size_t{0};
  CHECK(always("optimizer state") == 8 * parameters(above));  // AdamW's two states in 32 bits
}

TEST_CASE("a record that no rank holds is refused") {
  CHECK_THROWS_WITH(job_in_stages(llama, "[strategy.nowhere]\n", 2, 1),
                    Contains("no rank holds ") && Contains("names no position on the mesh's axis dp"));
}

}  // namespace stages_test
