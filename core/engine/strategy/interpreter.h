#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/group.h>
#include <capstan/nn/batch.h>
#include <capstan/strategy/program.h>

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "strategy/stage_transfers.h"
#include "strategy/unit_runner.h"

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// Where a micro-batch's backward starts: a tensor of one element and its gradient.
struct Start {
  at::Tensor root;
  at::Tensor gradient;
};

/// Runs programs: a step's, the dry run's, an evaluation's. Holds the contexts of the micro-batches in flight and hands
/// states and gradients from stage to stage. One thread.
class Interpreter {
 public:
  /// What a program is run on. All are called on the thread that runs it.
  struct Calls {
    std::function<nn::Batch(int micro)> batch;
    /// Before each action; before a forward that its backward directly follows, which is all of the model, for both.
    std::function<void(const Action& action)> before = {};
    /// Before the `index`-th backward of the program on this rank, each part of one counted; where a forward is
    /// directly followed by its backward and is all of the model, before the forward.
    std::function<void(int index)> before_backward = {};
    /// A stage's forward is done; of the model's last one, `out` is what the head gives.
    std::function<void(const RankStage& stage, const nn::Hidden& out)> computed = {};
    /// What a micro-batch's backward starts from at the model's end.
    std::function<Start(int micro, const nn::Batch& batch, const nn::Hidden& out)> start;
    /// Takes over a forward that is directly followed by its backward and is all of the model: calls `both` with the
    /// micro-batch's batch, or repeats what it recorded of an earlier call. Null: `both` is called.
    std::function<void(int micro, const std::function<void(const nn::Batch&)>& both)> whole = {};
  };

  /// `runner` must outlive it.
  explicit Interpreter(UnitRunner& runner, Channels channels = {});
  /// Runs the program's actions in their order. A receive only starts: the forward or backward that needs it waits.
  /// Collective over the positions on pp. Throws what a unit, a strategy or a peer's failure throws; contexts are gone
  /// then.
  void run(const Program& program, const Calls& calls);
  /// One micro-batch through all stages without gradient: what the head gives, where this rank has the last stage.
  /// `cache` has the keys and values of this rank's layers. `seen` is called with the outputs of its units, by their
  /// places in the whole model.
  nn::Hidden evaluate(const nn::Batch& batch, nn::KVCache* cache = nullptr, const UnitRunner::Seen& seen = {});
  /// Says what a stage gets of batches of this shape, so that transfers need not tell.
  void expect(int stage, const nn::Batch& batch, const nn::Hidden& in);

 private:
  using Key = std::pair<int, int>;  // stage and micro-batch
  const RankStage& stage_of(const Action& action) const;
  bool is_whole(const Program& program, std::size_t at) const;
  void both(int micro, const nn::Batch& batch, const Calls& calls);
  MicroContext& context_of(const Action& action, const Calls& calls);
  void act(const Action& action, const Calls& calls);
  std::vector<at::Tensor> states_for(const RankStage& stage, int micro);
  std::vector<at::Tensor> gradients_for(const RankStage& stage, int micro);
  void forward(const Action& action, const Calls& calls);
  void backward(const Action& action, const Calls& calls);
  void backward_weight(const Action& action, const Calls& calls);
  void forget();

  UnitRunner& runner_;
  StageTransfers transfers_;
  std::map<Key, MicroContext> contexts_;
  std::map<Key, std::vector<at::Tensor>> states_;     // by the stage of this rank that takes them from another of it
  std::map<Key, std::vector<at::Tensor>> gradients_;  // likewise, for its backward
  std::map<Key, std::vector<at::Tensor>> leaving_;    // by the stage that made them: what is to be sent
  int backwards_ = 0;                                 // of the program, so far
};

}  // namespace strategy
CAPSTAN_END_NAMESPACE
