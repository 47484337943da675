#include "assembly/predict.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <utility>

#include "assembly/dry_run.h"
#include "assembly/override_points.h"
#include "checkpoint/checkpoint.h"
#include "nn/blocks.h"
#include "shard/boxes.h"
#include "shard/footprint.h"
#include "shard/plan.h"

namespace capstan::assembly {
namespace {

// Libraries' memory that ATen's allocator hands out: cuBLAS's, 32 MiB for the thread of forward and that of backward.
constexpr std::int64_t cublas_bytes = std::int64_t{64} << 20;

std::string first_sentence(const std::string& text) {
  return text.substr(0, std::min(text.find('\n'), text.find(". ")));
}

// Activations are gone when an update begins: its own memory counts as far as they leave no room for it.
void count_beyond(std::int64_t bytes, const std::string& device, std::vector<layout::Footprint>& list) {
  std::erase_if(
      list, [&](const auto& part) { return part.when == "update" && part.device == device && part.bytes <= bytes; });
  for (auto& part : list) {
    if (part.when == "update" && part.device == device) part.bytes -= bytes;
  }
}

// Replaces what the owners themselves count for forward or backward by what is there at a micro-step's peak.
MicroStepWork add_micro_step(const DryRunOf& what, const std::string& device, Prediction& prediction) {
  const auto bytes = [](std::int64_t n) { return bytes_text(static_cast<double>(n)); };
  MicroStepMemory step;
  try {
    step = dry_run(what);
  } catch (const std::exception& error) {
    prediction.activations_note = cat("activations cannot be predicted: ", first_sentence(error.what()));
    return {};
  }
  auto& list = prediction.footprints;
  std::erase_if(list, [](const auto& part) { return part.when == "forward" || part.when == "backward"; });
  const auto when = "peak: " + step.peak;
  if (step.gathered > 0) list.push_back({"gathered units", step.gathered, device, when});
  list.push_back({"activations and gradients at work", step.work, device, when});
  if (const auto more = step.evaluation.bytes() - step.bytes(); more > 0)
    list.push_back({"evaluation beyond a micro-step", more, device, "evaluation: " + step.evaluation.peak});
  count_beyond(std::max(step.bytes(), step.evaluation.bytes()), device, list);
  list.push_back({"cuBLAS", cublas_bytes, device, "always"});
  prediction.activations = true;
  prediction.activations_note =
      cat("a micro-batch of ", what.topology.batch.rows(), " x ", thousands(what.samples.longest_row), " tokens keeps ",
          bytes(step.kept), " of activations between forward and backward; the peak is in ", step.peak);
  if (!step.evaluation_note.empty())
    prediction.activations_note += cat("; evaluation cannot be predicted: ", first_sentence(step.evaluation_note));
  return step.computed;
}

// Records of which ranks' boxes divide a block of the optimizer's states: what is learned then depends on the layout.
std::string divided_blocks(const shard::ShardPlan& plan, const shard::EngineOptions& options) {
  std::int64_t records = 0;
  std::int64_t divided = 0;
  shard::each_box(plan, options, shard::Of::parameters, /*only_trainable=*/true, [&](const shard::HeldBox& held) {
    const auto specs = options.optimizer->of(held.record).rule->states(held.record);
    const auto found = std::find_if(specs.begin(), specs.end(), [](const auto& spec) { return spec.block > 1; });
    if (found == specs.end()) return;
    ++records;
    divided += layout::divides_blocks(held.record, held.layout, options.mesh, found->block) ? 1 : 0;
  });
  if (divided == 0) return {};
  return cat("the optimizer counts blocks within each rank's part of ", thousands(divided), " of ", thousands(records),
             " parameters, since ranks' parts divide blocks: another number of ranks gives slightly other results");
}

}  // namespace

Prediction predict(const setup::Configuration& config, const Plugins& plugins, const Topology& topology,
                   const Samples& samples, const AssembledModel& model) {
  const auto options = engine_options(config, topology, samples, model, device_of(config));
  const auto plan = shard::make_plan(model.own_units(), options);
  Prediction prediction;
  prediction.footprints = shard::footprint(plan, options);
  prediction.state_note = divided_blocks(plan, options);
  const auto& saves = *config.checkpoint;
  if (saves.saves() && saves.asynchronous) {
    const bool only_trainable = settled_save(config, plugins, model) == "trainable";
    prediction.footprints.push_back(checkpoint::Writer::footprint(shard::saved_bytes(plan, options, only_trainable)));
    prediction.footprints.back().device = "host";
  }
  if (has_evaluation_weights(plugins.strategies)) {
    const auto bytes = shard::trained_master_bytes(plan, options);
    prediction.footprints.push_back({"parameters put aside", bytes, "host", "evaluation"});
  }
  auto facts = facts_of(config, plugins.model_facts, topology, samples.length);
  facts.trainable_parameters = shard::parameters(plan, /*only_trainable=*/true);
  shard::each_box(plan, options, shard::Of::parameters, /*only_trainable=*/true, [&](const shard::HeldBox& held) {
    facts.updated.push_back({&held.record, held.box});
  });
  each_strategy(plugins.strategies, "footprint", [&](strategy::Strategy& strategy) {
    for (auto& part : strategy.footprint(facts)) prediction.footprints.push_back(std::move(part));
  });
  if (config.request.activations && config.device == "cuda") {
    auto whole = options;
    whole.stages.reset();
    whole.backwards.clear();
    const auto flat = topology.without_stages();
    auto micro = add_micro_step({config, plugins, flat, samples, whole}, config.device, prediction);
    if (prediction.activations) prediction.work = step_work(std::move(micro), plan, options, topology);
    if (prediction.work && config.train->cuda_graphs == "off") prediction.work->replayed = 0;
  }
  return prediction;
}

std::int64_t host_bytes(const Prediction& prediction, const std::string& device) {
  const auto host = layout::total_bytes(prediction.footprints, "host");
  return device == "cpu" ? host + layout::total_bytes(prediction.footprints, "cpu") : host;
}

std::optional<std::int64_t> told_host_memory(const setup::RunOptions& run) {
  if (run.host_memory <= 0) return {};
  return static_cast<std::int64_t>(run.host_memory * (1LL << 30));
}

void check_host_memory(const setup::Configuration& config, const Topology& topology, const Prediction& prediction,
                       std::optional<std::int64_t> available, Diagnostics& diagnostics) {
  // `check` on a machine without a GPU judges "auto" for one elsewhere: only what is in host memory there too counts.
  const bool elsewhere = config.request.may_move && config.run->device == "auto";
  const auto needed = host_bytes(prediction, elsewhere ? "cuda" : config.device);
  if (needed == 0) return;
  const auto all = needed * topology.ranks_per_node;
  if (!available || all <= *available) return;
  const auto text = [](std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  diagnostics.add({},
                  cat(config.device == "cpu" && !elsewhere                             ? "training on CPUs needs "
                      : topology.policy.offload_optim || topology.policy.offload_param ? "offloading needs "
                                                                                       : "saving needs ",
                      text(needed), " of host memory a rank, ", text(all), " for the ", topology.ranks_per_node,
                      " ranks of a node, and ", text(*available), " are left"),
                  "use more nodes (check learns of them by --nodes), offload less, ask for a node with more memory "
                  "(#SBATCH --mem=0), or set run.host_memory if this is not the node");
}

}  // namespace capstan::assembly
