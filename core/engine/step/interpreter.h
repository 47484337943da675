#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/group.h>
#include <capstan/nn/batch.h>
#include <capstan/strategy/program.h>

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "step/stage_transfers.h"
#include "step/unit_runner.h"

CAPSTAN_BEGIN_NAMESPACE
namespace step {

class Interpreter;

/// What a program is run on: gives the micro-batches and what their backwards start from, and is told what happens. All
/// is called on the thread that runs the program.
class Workload {
 public:
  Workload() = default;
  virtual ~Workload();
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;

  virtual nn::Batch batch(int micro) = 0;
  /// Called before each action; before a forward that its backward directly follows, which is all of the model, for
  /// both.
  virtual void before(const strategy::Action& /*action*/) {}
  /// Called before the `index`-th backward of the program on this rank, each part of one counted; where a forward is
  /// directly followed by its backward and is all of the model, before the forward.
  virtual void before_backward(int /*index*/) {}
  /// A stage's forward is done; of the model's last one, the context's output is what the head gives.
  virtual void computed(const MicroContext& /*context*/) {}
  /// Called at the model's end: gives the context the root that its micro-batch's backward starts from, a tensor of one
  /// element, and the root's gradient.
  virtual void start(int micro, MicroContext& context) = 0;
  /// A forward that is directly followed by its backward and is all of the model: has the interpreter run both, or
  /// repeats what was recorded of an earlier run.
  virtual void forward_backward(Interpreter& interpreter, int micro);
};

/// Runs programs: a step's, the dry run's, an evaluation's. Holds the contexts of the micro-batches in flight and hands
/// states and gradients from stage to stage. One thread.
class Interpreter {
 public:
  /// `runner` must outlive it.
  explicit Interpreter(UnitRunner& runner, Channels channels = {});
  /// Runs the program's actions in their order. A receive only starts: the forward or backward that needs it waits.
  /// Collective over the positions on pp. Throws what a unit, a strategy or a peer's failure throws; contexts are gone
  /// then.
  void run(const strategy::Program& program, Workload& work);
  /// Forward and backward of a micro-batch that run in one, for Workload::forward_backward.
  void forward_backward(int micro, const nn::Batch& batch, Workload& work);
  /// One micro-batch through all stages without gradient: what the head gives, where this rank has the last stage.
  /// `cache` has the keys and values of this rank's layers. `seen` is called with the outputs of its units, by their
  /// places in the whole model.
  nn::Hidden evaluate(const nn::Batch& batch, nn::KVCache* cache = nullptr, const UnitRunner::Seen& seen = {});
  /// Says what a stage gets of batches of this shape, so that transfers need not tell.
  void expect(int stage, const nn::Batch& batch, const nn::Hidden& in);

 private:
  using Key = std::pair<int, int>;  // stage and micro-batch
  const strategy::RankStage& stage_of(const strategy::Action& action) const;
  bool is_whole(const strategy::Program& program, std::size_t at) const;
  MicroContext& context_of(const strategy::Action& action, Workload& work);
  void act(const strategy::Action& action, Workload& work);
  std::vector<at::Tensor> states_for(const strategy::RankStage& stage, int micro);
  std::vector<at::Tensor> gradients_for(const strategy::RankStage& stage, int micro);
  void forward(const strategy::Action& action, Workload& work);
  void backward(const strategy::Action& action, Workload& work);
  void backward_weight(const strategy::Action& action, Workload& work);
  void forget();

  UnitRunner& runner_;
  StageTransfers transfers_;
  std::map<Key, MicroContext> contexts_;
  std::map<Key, std::vector<at::Tensor>> states_;     // by the stage of this rank that takes them from another of it
  std::map<Key, std::vector<at::Tensor>> gradients_;  // likewise, for its backward
  std::map<Key, std::vector<at::Tensor>> leaving_;    // by the stage that made them: what is to be sent
  int backwards_ = 0;                                 // the program's, so far
};

}  // namespace step
CAPSTAN_END_NAMESPACE
