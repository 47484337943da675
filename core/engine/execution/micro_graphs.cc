#include "execution/micro_graphs.h"

#include <ATen/ATen.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <utility>

#include "execution/loss_rows.h"

namespace capstan::execution {
namespace {

// Libraries make their handles, plans and workspaces in the first runs of a shape.
constexpr int eager_runs = 2;
// Each takes some MB of the device; a run with more shapes pads too little for graphs to help.
constexpr std::size_t most_graphs = 32;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

bool splits_layers(const layout::Mesh& mesh) {
  return mesh.size({layout::Axis::cp, layout::Axis::ep}) > 1 || mesh.size(layout::data_axes) < mesh.world_size();
}

GraphSetting graph_setting(const session::Session& session) {
  const auto& job = *session.job;
  GraphSetting setting{ops::graph_recorder(session.device)};
  if (job.config.train->cuda_graphs == "off" || !setting.recorder) return {};
  if (!job.frozen.empty()) {
    log::info(
        cat("micro-steps do not run as CUDA graphs: the objective also runs '", job.frozen.front().plugin.name, "'"));
    return {};
  }
  if (splits_layers(job.topology.mesh)) {
    log::info("micro-steps do not run as CUDA graphs: ranks that share layers communicate in the middle of them");
    return {};
  }
  // What the longest samples take at the peak, beyond what is always there; 0 where that was not asked for.
  for (const auto& part : job.prediction.footprints) {
    if (part.when.starts_with("peak: ")) setting.work_bytes += part.bytes;
  }
  return setting;
}

bool MicroGraphs::run(const StepInput& input, std::size_t index, const Body& body) {
  const auto& batch = input.micro[index];
  if (!setting_.recorder && shapes_.empty()) return false;
  if (!batch.documents.empty()) {
    if (setting_.recorder) refuse("packed rows hardly ever have a shape again");
    return false;
  }
  if (!session_.engine->is_local(static_cast<std::int64_t>(index))) {
    give_up_on_none(input.step);
    return false;
  }
  auto& recorded = shapes_[{batch.rows, batch.cols, data::loss_rows(batch), index > 0}];
  if (!recorded.graph) {
    if (recorded.seen++ < eager_runs || !record(batch, input.step, recorded, body)) return false;
  }
  recorded.numbers->copy({batch, input.step, !session_.device.is_cpu()});
  recorded.graph->replay();
  return true;
}

// The first step has shown what each one is like: if none of its micro-steps could be a graph, none will.
void MicroGraphs::give_up_on_none(std::int64_t step) {
  if (!first_step_) first_step_ = step;
  if (!setting_.recorder || step == *first_step_ || !shapes_.empty()) return;
  refuse(
      "each sums gradients over ranks, gathers parameters, moves gradients to their shards, or leaves them where "
      "autograd makes them");
}

std::size_t MicroGraphs::recorded() const {
  return static_cast<std::size_t>(
      std::count_if(shapes_.begin(), shapes_.end(), [](const auto& shape) { return shape.second.graph != nullptr; }));
}

// Nothing is recorded from now on.
void MicroGraphs::refuse(const std::string& why) {
  setting_.recorder = nullptr;
  log::info(cat(recorded() == 0 ? "micro-steps" : "further micro-steps", " do not run as CUDA graphs: ", why));
}

// Why there is to be no first recording; empty: nothing is in its way.
std::string MicroGraphs::obstacle() const {
  const auto& runner = *session_.runner;
  if (runner.recomputes()) return "units are computed again in backward";
  if (runner.hooks() > runner.units().size()) return "a strategy or a monitor follows the units";
  const auto room = setting_.recorder->make_room();
  const auto work = std::max(room.spare, setting_.work_bytes);
  if (room.free >= 2 * work) return {};
  return cat("they would hold ", bytes_text(static_cast<double>(work)),
             " for activations, and as much again for shapes ", "that are not recorded, but only ",
             bytes_text(static_cast<double>(room.free)), " are free");
}

bool MicroGraphs::record(const data::HostBatch& micro, std::int64_t step, Recorded& recorded, const Body& body) {
  if (!setting_.recorder || this->recorded() >= most_graphs) return false;
  auto why = this->recorded() == 0 ? obstacle() : std::string();
  if (why.empty()) why = try_to_record(micro, step, recorded, body);
  if (!why.empty()) refuse(why);
  return why.empty();
}

// Returns why it could not be recorded; empty: it was.
std::string MicroGraphs::try_to_record(const data::HostBatch& micro, std::int64_t step, Recorded& recorded,
                                       const Body& body) {
  recorded.numbers = BatchNumbers(micro, step, false).to(session_.device, /*non_blocking=*/false);
  session_.engine->join();
  try {
    recorded.graph = setting_.recorder->record([numbers = *recorded.numbers, seed = session_.job->seed(), body] {
      auto batch = numbers.batch();
      batch.device_step = numbers.step();
      batch.seed = seed;
      batch.training = true;
      body(batch);
    });
  } catch (const std::exception& error) {
    session_.engine->drop_gradients();
    return first_line(error.what());
  }
  log::debug(
      cat("micro-steps of ", micro.rows, " x ", micro.cols, " tokens run as a CUDA graph from step ", step, " on"));
  return {};
}

}  // namespace capstan::execution
