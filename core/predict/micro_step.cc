#include "predict/micro_step.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <utility>

#include "predict/dry_run.h"
#include "predict/step_work.h"
#include "strategy/passed_over.h"

namespace capstan::predict {
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
void add_peak(const MicroStepMemory& step, const std::string& device, std::vector<layout::Footprint>& list) {
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
  add_peak(step, device, parts);
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

std::string note_of(const MicroStepMemory& step, const job::Topology& topology, const job::Samples& samples,
                    bool holds) {
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

// Do evaluations have room to keep what they gather?
bool may_hold(MicroStepMemory step, const job::Prediction& prediction, const setup::Configuration& config) {
  step.evaluation = step.held;
  return step.held.bytes() > 0 && step.evaluation_note.empty() &&
         fits_into(config.request.gpu_room, peak_with(step, config.device, prediction.footprints));
}

// A dry run, whose time is that of ranks whose experts get as many tokens as any other's; memory may be for more.
std::vector<MicroStepMemory> dry_run_of(const std::vector<job::Position>& positions,
                                        const job::PredictionInputs& inputs) {
  const auto& [config, plugins, samples, model, frozen] = inputs;
  std::vector<DryRunOf> dry_runs;
  for (const auto& at : positions) dry_runs.push_back({config, plugins, at.topology, samples, at.options, frozen});
  auto steps = dry_run(dry_runs);
  if (positions.front().topology.mesh.size(layout::Axis::ep) == 1) return steps;
  std::vector<job::Topology> even;
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

}  // namespace

void add_micro_step(const std::vector<job::Position>& positions, const job::PredictionInputs& inputs,
                    std::vector<job::Prediction>& predictions) {
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
    add_peak(steps[p], config.device, prediction.footprints);
    prediction.activations = true;
    prediction.largest_tensor = std::max(steps[p].largest, steps[p].evaluation.largest);
    prediction.activations_note = note_of(steps[p], topology, samples, holds);
    prediction.work = step_work(std::move(steps[p].computed), plan, options, topology);
    prediction.work->actions = std::move(steps[p].actions);
    if (config.train->cuda_graphs == "off" || !frozen.empty()) prediction.work->replayed = 0;
  }
}

}  // namespace capstan::predict
