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
#include "strategy/passed_over.h"

namespace capstan::assembly {
namespace {

// Libraries' memory that ATen's allocator hands out: cuBLAS's, 32 MiB for the thread of forward and that of backward.
constexpr std::int64_t cublas_bytes = std::int64_t{64} << 20;

std::string first_sentence(const std::string& text) {
  return text.substr(0, std::min(text.find('\n'), text.find(". ")));
}

// Activations are gone when an update begins: its own memory counts as far as they leave no room for it.
void count_beyond(std::int64_t bytes, const std::string& device, std::vector<layout::Footprint>& list) {
  for (auto& part : list) {
    if (part.when == "update" && part.device == device) part.bytes = std::max<std::int64_t>(0, part.bytes - bytes);
  }
  std::erase_if(list, [](const auto& part) { return part.when == "update" && part.bytes == 0; });
}

// Replaces what the owners themselves count for forward or backward by what is there at a micro-step's peak.
void add_micro_step(const MicroStepMemory& step, const std::string& device, std::vector<layout::Footprint>& list) {
  std::erase_if(list, [](const auto& part) { return part.when == "forward" || part.when == "backward"; });
  const auto when = "peak: " + step.peak;
  if (step.gathered > 0) list.push_back({"gathered units", step.gathered, device, when});
  list.push_back({"activations and gradients at work", step.work, device, when});
  if (const auto more = step.evaluation.bytes() - step.bytes(); more > 0)
    list.push_back({"evaluation beyond a micro-step", more, device, "evaluation: " + step.evaluation.peak});
  count_beyond(std::max(step.bytes(), step.evaluation.bytes()), device, list);
  list.push_back({"cuBLAS", cublas_bytes, device, "always"});
}

std::int64_t peak_with(const MicroStepMemory& step, const std::string& device, std::vector<layout::Footprint> parts) {
  add_micro_step(step, device, parts);
  return layout::total_bytes(parts, device);
}

// What training takes at its peak and what an evaluation does, which updates nothing.
std::vector<layout::Footprint> peaks_of(const MicroStepMemory& step, const std::string& device,
                                        std::vector<layout::Footprint> parts) {
  if (step.bytes() == 0 || step.evaluation.bytes() == 0) return {};
  auto training = step, evaluation = step;
  training.evaluation = {};
  static_cast<AtPeak&>(evaluation) = {};
  const auto bytes = peak_with(training, device, parts);
  std::erase_if(parts, [](const auto& part) { return part.when == "update"; });
  return {{"training's peak", bytes, device, step.peak},
          {"evaluation's peak", peak_with(evaluation, device, parts), device, step.evaluation.peak}};
}

std::string note_of(const MicroStepMemory& step, const Topology& topology, const Samples& samples, bool holds) {
  const auto kept = bytes_text(static_cast<double>(step.kept));
  auto note = cat("a micro-batch of ", topology.batch.rows(), " x ", thousands(samples.longest_row), " tokens keeps ",
                  kept, " of activations between forward and backward");
  if (topology.mesh.size(layout::Axis::pp) > 1)
    note += cat(" of a stage at pp ", topology.position(), ", where up to ", step.in_flight, " are in flight");
  note += cat("; the peak is in ", step.peak);
  if (holds) note += "; an evaluation gathers parameters once, and keeps them to its end";
  if (!step.evaluation_note.empty())
    note += cat("; evaluation cannot be predicted: ", first_sentence(step.evaluation_note));
  return note;
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

// What a prediction is made from.
struct Inputs {
  const setup::Configuration& config;
  const Plugins& plugins;
  const Samples& samples;
  const AssembledModel& model;
  const std::vector<FrozenModel>& frozen;
};

// One of the ranks at a position on pp: what it computes and keeps.
struct Position {
  Topology topology;
  shard::EngineOptions options;
  std::vector<nn::Unit*> units;
  shard::ShardPlan plan;
};

Position position_of(int number, const Inputs& inputs, const Topology& topology) {
  const auto& model = inputs.model;
  Position position{topology.at_position(number), {}, model.units_of(model.stages_at(number)), {}};
  position.options = engine_options(inputs.config, position.topology, inputs.samples, model, device_of(inputs.config));
  position.plan = shard::make_plan(position.units, position.options);
  return position;
}

void add_frozen(const Inputs& inputs, const Topology& topology, Prediction& prediction) {
  for (const auto& one : inputs.frozen) {
    const auto options = engine_options(inputs.config, topology, inputs.samples, *one.model, device_of(inputs.config));
    const auto plan = shard::make_plan(one.model->own_units(), options);
    for (auto& part : named(one.plugin.name, shard::footprint(plan, options)))
      prediction.footprints.push_back(std::move(part));
  }
}

Prediction memory_of(const Position& position, const Inputs& inputs) {
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

// Do evaluations have room to keep what they gather?
bool may_hold(MicroStepMemory step, const Prediction& prediction, const setup::Configuration& config) {
  step.evaluation = step.held;
  return step.held.bytes() > 0 && step.evaluation_note.empty() &&
         fits_into(config.request.gpu_room, peak_with(step, config.device, prediction.footprints));
}

// A dry run, whose time is that of ranks whose experts get as many tokens as any other's; memory may be for more.
std::vector<MicroStepMemory> dry_run_of(const std::vector<Position>& positions, const Inputs& inputs) {
  const auto& [config, plugins, samples, model, frozen] = inputs;
  std::vector<DryRunOf> dry_runs;
  for (const auto& at : positions) dry_runs.push_back({config, plugins, at.topology, samples, at.options, frozen});
  auto steps = dry_run(dry_runs);
  if (positions.front().topology.mesh.size(layout::Axis::ep) == 1) return steps;
  std::vector<Topology> even;
  for (const auto& at : positions) even.emplace_back(at.topology).takes_mean_load = true;
  dry_runs.clear();
  for (std::size_t p = 0; p < positions.size(); ++p)
    dry_runs.push_back({config, plugins, even[p], samples, positions[p].options, frozen});
  auto timed = dry_run(dry_runs);
  for (std::size_t p = 0; p < positions.size(); ++p) {
    steps[p].computed = std::move(timed[p].computed);
    steps[p].actions = std::move(timed[p].actions);
  }
  return steps;
}

// What micro-batches take and what a step computes, at each position.
void add_work(const std::vector<Position>& positions, const Inputs& inputs, std::vector<Prediction>& predictions) {
  const auto& [config, plugins, samples, model, frozen] = inputs;
  std::vector<MicroStepMemory> steps;
  try {
    steps = dry_run_of(positions, inputs);
  } catch (const std::exception& error) {
    const auto note = cat("activations cannot be predicted: ", first_sentence(error.what()));
    for (auto& prediction : predictions) prediction.activations_note = note;
    return;
  }
  for (const auto& step : steps)
    if (!step.passed_over.empty()) throw Error(step.passed_over, strategy::passed_over_fix);
  bool holds = true;
  for (std::size_t p = 0; p < steps.size(); ++p) holds = holds && may_hold(steps[p], predictions[p], config);
  for (std::size_t p = 0; p < positions.size(); ++p) {
    auto& prediction = predictions[p];
    const auto& [topology, options, units, plan] = positions[p];
    prediction.holds = holds;
    if (holds) steps[p].evaluation = steps[p].held;
    prediction.peaks = peaks_of(steps[p], config.device, prediction.footprints);
    add_micro_step(steps[p], config.device, prediction.footprints);
    prediction.activations = true;
    prediction.largest_tensor = std::max(steps[p].largest, steps[p].evaluation.largest);
    prediction.activations_note = note_of(steps[p], topology, samples, holds);
    prediction.work = step_work(std::move(steps[p].computed), plan, options, topology);
    prediction.work->actions = std::move(steps[p].actions);
    if (config.train->cuda_graphs == "off" || !frozen.empty()) prediction.work->replayed = 0;
  }
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
  const Inputs inputs{config, plugins, samples, model, frozen};
  std::vector<Position> positions;
  std::vector<Prediction> predictions;
  for (int number = 0; number < topology.mesh.size(layout::Axis::pp); ++number) {
    positions.push_back(position_of(number, inputs, topology));
    predictions.push_back(memory_of(positions.back(), inputs));
  }
  if (config.request.activations && config.device == "cuda") add_work(positions, inputs, predictions);
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

}  // namespace capstan::assembly
