#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/batch.h>

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "ops/device_graph.h"
#include "step/feed.h"
#include "step/session.h"

CAPSTAN_BEGIN_NAMESPACE
namespace step {

/// What micro-steps are recorded with.
struct GraphSetting {
  std::shared_ptr<ops::GraphRecorder> recorder = nullptr;  ///< null: none is
  std::int64_t work_bytes = 0;  ///< activations and gradients at work of the largest micro-step, as predicted
};
/// The setting that train.cuda_graphs asks for on this device; the log says where the job rules it out.
GraphSetting graph_setting(const session::Session& session);

/// Do ranks communicate in the middle of a forward? Layers' collectives are between ranks of other axes than data's, or
/// between those that share tokens.
bool splits_layers(const layout::Mesh& mesh);

/// Micro-steps as device graphs, one for each shape: rows, columns, the number of positions whose logits are computed
/// (data::loss_rows), whether gradients are written or added, and whether ranks sum them. A shape runs eagerly first,
/// then is recorded and from then on replayed: the host queues few pieces of work in place of some thousand, and the
/// results are the same bit for bit. What differs between steps (tokens, which positions bear loss, the step that keys
/// dropout, what backward starts from) is read from memory that stays. Sums over ranks come between such pieces, not
/// recorded: NCCL wants a call recorded by all ranks or by none, and each rank has shapes of its own.
///
/// Others run eagerly: packed rows, whose shapes hardly ever come again; micro-steps that move parameters or gradients
/// elsewhere (Engine::stays_in_place); all, where units run again in backward, where strategies or monitors follow
/// units, or where the device has no room for a second set of activations: a graph keeps its memory, which eager
/// micro-steps of other shapes cannot use. A recording that fails changes nothing; the log says why, once.
class MicroGraphs {
 public:
  /// Forward, backward and sums, from the batch's memory and memory that stays.
  using Body = std::function<void(const nn::Batch&)>;

  /// `session` must outlive it.
  MicroGraphs(const session::Session& session, GraphSetting setting)
      : session_(session), setting_(std::move(setting)) {}
  /// The step's micro-step `index`. False: this one has to run eagerly.
  bool run(const StepInput& input, std::size_t index, const Body& body);

 private:
  struct Shape {
    std::int64_t rows, columns, loss_rows;
    bool adds, sums;
    auto operator<=>(const Shape&) const = default;
  };
  struct Recorded {
    int seen = 0;
    at::Tensor words;  ///< what the graph reads: the batch (words_of)
    std::unique_ptr<ops::DeviceGraph> graph;
  };
  std::string obstacle() const;
  void refuse(const std::string& why);
  bool record(const data::HostBatch& micro, std::int64_t step, Recorded& recorded, const Body& body);
  std::string try_to_record(const data::HostBatch& micro, std::int64_t step, Recorded& recorded, const Body& body);

  const session::Session& session_;
  GraphSetting setting_;
  std::map<Shape, Recorded> shapes_;
  std::size_t recorded_ = 0;
};

}  // namespace step
CAPSTAN_END_NAMESPACE
