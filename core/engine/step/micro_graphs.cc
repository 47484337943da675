#include "step/micro_graphs.h"

#include <ATen/ATen.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <utility>

#include "data/loss_rows.h"
#include "step/to_device.h"

namespace capstan::step {
namespace {

// Libraries make their handles, plans and workspaces in the first runs of a shape.
constexpr int eager_runs = 2;
// Each takes some MB of the device; a run with more shapes pads too little for graphs to help.
constexpr std::size_t most_graphs = 32;

}  // namespace

bool splits_layers(const layout::Mesh& mesh) {
  return mesh.size({layout::Axis::cp, layout::Axis::ep}) > 1 || mesh.size(layout::data_axes) < mesh.world_size();
}

GraphSetting graph_setting(const Session& session) {
  const auto& job = *session.job;
  GraphSetting setting{ops::graph_recorder(session.device)};
  if (job.config.train->cuda_graphs == "off" || !setting.recorder) return {};
  if (!job.frozen.empty()) {
    log::info(
        cat("micro-steps do not run as CUDA graphs: the objective also runs '", job.frozen.front().plugin.name, "'"));
    return {};
  }
  if (!job.plugins.minimised->plan().baselines.empty()) {
    log::info("micro-steps do not run as CUDA graphs: the objective needs numbers of the whole step before it");
    return {};
  }
  if (job.plugins.minimised->choices().size() > 1) {
    log::info("micro-steps do not run as CUDA graphs: the objective's passes go over different sequences");
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
    refuse("packed rows hardly ever have a shape again");
    return false;
  }
  if (!session_.engine->stays_in_place()) {
    // The first of several may gather what an update has changed; later ones are all alike.
    if (index > 0 || input.micro.size() == 1)
      refuse("each gathers parameters, moves gradients to their shards, or leaves them where autograd makes them");
    return false;
  }
  const bool sums = index + 1 == input.micro.size() && session_.job->topology.mesh.world_size() > 1;
  auto& recorded = shapes_[{batch.rows, batch.cols, data::loss_rows(batch), index > 0, sums}];
  if (!recorded.graph) {
    if (recorded.seen++ < eager_runs || !record(batch, input.step, recorded, body)) return false;
  }
  recorded.words.copy_(words_of(batch, input.step, !session_.device.is_cpu()), /*non_blocking=*/true);
  recorded.graph->replay();
  return true;
}

// Nothing is recorded from now on.
void MicroGraphs::refuse(const std::string& why) {
  if (!std::exchange(setting_.recorder, nullptr)) return;
  log::info(cat(recorded_ == 0 ? "micro-steps" : "further micro-steps", " do not run as CUDA graphs: ", why));
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
  if (!setting_.recorder || recorded_ >= most_graphs) return false;
  auto why = recorded_ == 0 ? obstacle() : std::string();
  if (why.empty()) why = try_to_record(micro, step, recorded, body);
  if (!why.empty()) refuse(why);
  return why.empty();
}

// Returns why it could not be recorded; empty: it was.
std::string MicroGraphs::try_to_record(const data::HostBatch& micro, std::int64_t step, Recorded& recorded,
                                       const Body& body) {
  recorded.words = words_of(micro, step, false).to(session_.device);
  session_.engine->join();
  try {
    recorded.graph = setting_.recorder->record([this, micro, words = recorded.words, body](const auto& apart) {
      const auto sums = session_.engine->sum_apart(apart);
      auto batch = batch_of(micro, words);
      batch.seed = session_.job->seed();
      batch.training = true;
      body(batch);
    });
  } catch (const std::exception& error) {
    session_.engine->drop_gradients();
    const std::string why = error.what();
    return why.substr(0, why.find('\n'));
  }
  ++recorded_;
  log::debug(
      cat("micro-steps of ", micro.rows, " x ", micro.cols, " tokens run as a CUDA graph from step ", step, " on"));
  return {};
}

}  // namespace capstan::step
