#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/batch.h>

#include <cstdint>
#include <memory>

#include "ops/device_graph.h"
#include "session/session.h"

CAPSTAN_BEGIN_NAMESPACE
namespace execution {

/// Rows of tokens that are continued a token at a time: their last tokens and positions, and the keys and values before
/// them, in memory of the device that stays. So from the third step on a step is a device graph, which later batches of
/// as many rows replay too, unless train.cuda_graphs is off, ranks communicate in the middle of a forward, parameters
/// move, or strategies or monitors follow units; the results are the same bit for bit. A recording that fails changes
/// nothing; the log says why. Weights must stay what they are while it exists.
class DecodeSteps {
 public:
  /// Rows of at most `capacity` tokens, prompts and answers. `session` must outlive it.
  DecodeSteps(session::Session& session, std::int64_t rows, std::int64_t capacity);
  /// Has it room for these?
  bool takes(std::int64_t rows, std::int64_t capacity) const { return rows == last_.size(0) && capacity <= capacity_; }
  /// Begins with prompts, padded on the right: the logits of each row's token `last` [B, vocabulary]; undefined on
  /// positions on pp without the model's end. Later tokens replace what padding left in the cache.
  at::Tensor begin(const nn::Batch& prompts);
  /// The logits after one more token of each row, chosen [B] int64 on the device; valid until the next call. A row that
  /// is full stays at its last position.
  at::Tensor next(const at::Tensor& chosen);

 private:
  at::Tensor forward();
  void record();

  session::Session& session_;
  std::int64_t capacity_;
  std::shared_ptr<ops::GraphRecorder> recorder_;  // null: steps are not recorded
  nn::KVCache empty_;                             // the same memory twice: for prompts, and for what follows them
  nn::KVCache filled_;
  nn::Batch batch_;
  at::Tensor last_;
  at::Tensor logits_;  // what the graph writes
  int eager_ = 0;      // steps before it
  std::unique_ptr<ops::DeviceGraph> graph_;
};

}  // namespace execution
CAPSTAN_END_NAMESPACE
