#include "job/predict.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <utility>

#include "checkpoint/checkpoint.h"
#include "job/override_points.h"
#include "job/position.h"
#include "nn/blocks.h"
#include "predict/door.h"
#include "shard/boxes.h"
#include "shard/footprint.h"

namespace capstan::job {
namespace {

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

Position position_of(int number, const PredictionInputs& inputs, const Topology& topology) {
  const auto& model = inputs.model;
  Position position{topology.at_position(number), {}, model.units_of(model.stages_at(number)), {}};
  position.options = engine_options(inputs.config, position.topology, inputs.samples, model, device_of(inputs.config));
  position.plan = shard::make_plan(position.units, position.options);
  return position;
}

void add_frozen(const PredictionInputs& inputs, const Topology& topology, Prediction& prediction) {
  for (const auto& one : inputs.frozen) {
    const auto options = engine_options(inputs.config, topology, inputs.samples, *one.model, device_of(inputs.config));
    const auto plan = shard::make_plan(one.model->own_units(), options);
    for (auto& part : named(one.plugin.name, shard::footprint(plan, options)))
      prediction.footprints.push_back(std::move(part));
  }
}

Prediction memory_of(const Position& position, const PredictionInputs& inputs) {
  const auto& [config, plugins, samples, model, frozen] = inputs;
  const auto& [topology, options, units, plan] = position;
  Prediction prediction;
  prediction.footprints = shard::footprint(plan, options);
  prediction.state_note = divided_blocks(plan, options);
  add_frozen(inputs, topology, prediction);
  const auto& saves = *config.checkpoint;
  if (saves.saves() && saves.asynchronous) {
    const bool only_trainable = settled_save(config, plugins, model) == "trainable";
    prediction.footprints.push_back(checkpoint::Writer::footprint(shard::saved_bytes(plan, options, only_trainable)));
    prediction.footprints.back().device = "host";
  }
  if (any_claims(plugins.strategies, strategy::evaluation_weights_point)) {
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
  return prediction;
}

std::string stages_note(const std::vector<Position>& positions, const std::vector<Prediction>& predictions,
                        std::size_t largest, const std::string& device) {
  std::vector<std::string> each;
  for (std::size_t p = 0; p < positions.size(); ++p) {
    const auto bytes = static_cast<double>(layout::total_bytes(predictions[p].footprints, device));
    each.push_back(cat("pp ", p, " (", thousands(shard::parameters(positions[p].plan, false)), " parameters) ",
                       bytes_text(bytes)));
  }
  return cat("memory by the stages' position: ", join(each, ", "), "; above is pp ", largest);
}

}  // namespace

Prediction predict(const setup::Configuration& config, const Plugins& plugins, const Topology& topology,
                   const Samples& samples, const AssembledModel& model, const std::vector<FrozenModel>& frozen) {
  const PredictionInputs inputs{config, plugins, samples, model, frozen};
  std::vector<Position> positions;
  std::vector<Prediction> predictions;
  for (int number = 0; number < topology.mesh.size(layout::Axis::pp); ++number) {
    positions.push_back(position_of(number, inputs, topology));
    predictions.push_back(memory_of(positions.back(), inputs));
  }
  if (config.request.activations && config.device == "cuda")
    predict::door().add_micro_step(positions, inputs, predictions);
  if (positions.size() == 1) return std::move(predictions.front());
  std::vector<std::int64_t> bytes;
  std::vector<plan::StepWork> works;
  for (std::size_t p = 0; p < positions.size(); ++p) {
    bytes.push_back(layout::total_bytes(predictions[p].footprints, config.device));
    if (!predictions[p].work) continue;
    predictions[p].work->program = model.program(static_cast<int>(topology.batch.accumulation), static_cast<int>(p));
    works.push_back(*predictions[p].work);
  }
  const auto largest = static_cast<std::size_t>(std::max_element(bytes.begin(), bytes.end()) - bytes.begin());
  const auto note = stages_note(positions, predictions, largest, config.device);
  auto prediction = std::move(predictions[largest]);
  prediction.stages_note = note;
  prediction.works = std::move(works);
  return prediction;
}

std::vector<layout::Footprint> named(const std::string& model, std::vector<layout::Footprint> parts) {
  std::erase_if(parts, [](const auto& part) { return part.bytes == 0; });
  for (auto& part : parts) part.part = cat(model, ": ", part.part);
  return parts;
}

}  // namespace capstan::job
