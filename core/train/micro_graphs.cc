#include "train/micro_graphs.h"

#include <ATen/ATen.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <utility>

#include "data/loss_rows.h"
#include "inference/feed.h"

namespace capstan::train {
namespace {

// Libraries make their handles, plans and workspaces in the first runs of a shape.
constexpr int eager_runs = 2;
// Each takes some MB of the device; who has more shapes pads too little for graphs to help.
constexpr std::size_t most_graphs = 32;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

MicroGraphs::MicroGraphs(GraphSetting setting, const LoadedModel& model)
    : setting_(std::move(setting)), model_(model) {}

bool MicroGraphs::run(const MicroStepOf& micro, const Body& body) {
  const auto& batch = micro.batch;
  if (!setting_.recorder && shapes_.empty()) return false;
  if (!batch.documents.empty()) {
    if (setting_.recorder) refuse("packed rows hardly ever have a shape again");
    return false;
  }
  if (!model_.engine.is_local(micro.index)) {
    give_up_on_none(micro);
    return false;
  }
  auto& recorded = shapes_[{batch.rows, batch.cols, data::loss_rows(batch), micro.index > 0}];
  if (!recorded.graph) {
    if (recorded.seen++ < eager_runs || !record(micro, recorded, body)) return false;
  }
  recorded.numbers.copy_(inference::numbers_of(batch, micro.step, !model_.device.is_cpu()), /*non_blocking=*/true);
  recorded.graph->replay();
  return true;
}

// The first step has shown what each one is like: if none of its micro-steps could be a graph, none will.
void MicroGraphs::give_up_on_none(const MicroStepOf& micro) {
  if (!first_step_) first_step_ = micro.step;
  if (!setting_.recorder || micro.step == *first_step_ || !shapes_.empty()) return;
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
  if (model_.runner.recomputes()) return "units are computed again in backward";
  if (model_.runner.hooks() > model_.runner.units().size()) return "a strategy or a monitor follows the units";
  const auto room = setting_.recorder->make_room();
  const auto work = std::max(room.spare, setting_.work_bytes);
  if (room.free >= 2 * work) return {};
  return cat("they would hold ", bytes_text(static_cast<double>(work)),
             " for activations, and as much again for shapes ", "that are not recorded, of which ",
             bytes_text(static_cast<double>(room.free)), " are free");
}

bool MicroGraphs::record(const MicroStepOf& micro, Recorded& recorded, const Body& body) {
  if (!setting_.recorder || this->recorded() >= most_graphs) return false;
  auto why = this->recorded() == 0 ? obstacle() : std::string();
  if (why.empty()) why = try_to_record(micro, recorded, body);
  if (!why.empty()) refuse(why);
  return why.empty();
}

// Empty, or why not.
std::string MicroGraphs::try_to_record(const MicroStepOf& micro, Recorded& recorded, const Body& body) {
  const auto rows = micro.batch.rows, columns = micro.batch.cols;
  recorded.numbers = inference::numbers_of(micro.batch, micro.step, false).to(model_.device);
  model_.engine.join();
  try {
    recorded.graph = setting_.recorder->record([numbers = recorded.numbers, rows, columns, seed = micro.seed, body] {
      auto batch = inference::batch_of(numbers, rows, columns);
      batch.device_step = numbers.narrow(0, numbers.numel() - 1, 1);
      batch.seed = seed;
      batch.training = true;
      body(batch);
    });
  } catch (const std::exception& error) {
    model_.engine.drop_gradients();
    return first_line(error.what());
  }
  log::debug(cat("micro-steps of ", rows, " x ", columns, " tokens run as a CUDA graph from step ", micro.step, " on"));
  return {};
}

}  // namespace capstan::train
