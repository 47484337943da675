#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/batch.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "ops/device_graph.h"
#include "step/session.h"

CAPSTAN_BEGIN_NAMESPACE
namespace generation {

/// Rows of tokens that are continued a token at a time: their last tokens and positions, and the keys and values before
/// them, in memory of the device that stays. So from the third step on a step is a device graph, also when rows begin
/// again with other prompts, unless train.cuda_graphs is off, the model has stages, parameters move, or strategies or
/// monitors follow units; the results are the same bit for bit. Ranks that split layers or share experts record their
/// collectives too, all of them or none. A recording that fails changes nothing; the log says why. Weights must stay as
/// they are meanwhile. All ranks make the same calls, with as many rows.
class DecodeSteps {
 public:
  /// What steps are recorded with, null: they are not; the same on all ranks.
  static std::shared_ptr<ops::GraphRecorder> recorder_for(const step::Session& session);
  /// Rows of at most `capacity` tokens, prompts and answers. `session` must outlive it.
  DecodeSteps(step::Session& session, std::int64_t rows, std::int64_t capacity,
              std::shared_ptr<ops::GraphRecorder> recorder);
  /// Begins `rows` [n] int64 again with prompts [n, S], padded on the right; the others stay as they are. The logits of
  /// each prompt's token `last` [n, vocabulary]; undefined on positions on pp without the model's end. Later tokens
  /// replace what padding left in the cache. No rows: `prompts` is run, and leaves nothing.
  at::Tensor begin(const nn::Batch& prompts, const at::Tensor& rows);
  /// The logits after one more token of each row, chosen [B] int64 on the device; valid until the next call. A row that
  /// is full stays at its last position.
  at::Tensor next(const at::Tensor& chosen);

 private:
  at::Tensor forward();
  void on_all(const std::function<void()>& work) const;
  void record();

  step::Session& session_;
  std::int64_t capacity_;
  std::shared_ptr<ops::GraphRecorder> recorder_;  // null: steps are not recorded
  nn::KVCache cache_;
  nn::Batch batch_;
  at::Tensor last_;
  at::Tensor logits_;  // what the graph writes
  int eager_ = 0;      // steps before it
  std::unique_ptr<ops::DeviceGraph> graph_;
};

}  // namespace generation
CAPSTAN_END_NAMESPACE
