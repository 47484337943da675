#pragma once
// A chain of tiny units that ranks compute in stages.
#include <capstan/base/text.h>
#include <capstan/comm/communicator.h>
#include <torch/csrc/autograd/autograd.h>

#include <numeric>

#include "step/interpreter.h"
#include "strategy/tiny_units.h"

namespace capstan::testing {

inline TinyChain staged_chain() {
  TinyChain chain;
  chain.push_back(std::make_unique<TinyTable>(tiny_weight("table", {7, 5}, true), true));
  for (int i = 1; i < 4; ++i)
    chain.push_back(std::make_unique<TinyLayer>("layer" + std::to_string(i), true, TinyLayer::Sizes{}, 0.2));
  chain.push_back(std::make_unique<TinyHead>(tiny_weight("head", {6, 5}, true)));
  bind_leaves(chain);
  return chain;
}

/// A step of the chain over tiny_batch(micro).
class StagedStep : public step::Workload {
 public:
  nn::Batch batch(int micro) override { return tiny_batch(micro); }
  void before_backward(int index) override { backwards.push_back(index); }
  void start(int /*micro*/, step::MicroContext& context) override {
    context.roots = {context.out.states};
    context.gradients = {at::ones({}, at::kDouble)};
  }
  std::vector<int> backwards;
};

/// What one rank has after these micro-batches.
inline std::map<std::string, at::Tensor> expected_gradients(int micros) {
  const auto chain = staged_chain();
  for (int m = 0; m < micros; ++m)
    torch::autograd::backward({plain_loss(chain, tiny_batch(m))}, {at::ones({}, at::kDouble)});
  return take_gradients(chain);
}

inline step::Channels channels_in(comm::Communicator& communicator, const strategy::Stages& stages) {
  std::vector<int> ranks(static_cast<std::size_t>(communicator.world().size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return step::channels_of(
      stages, communicator.world().rank, ranks, [&](const step::Channel& channel, const std::vector<int>& ends) {
        return communicator.group(cat(channel.has_states ? "states of " : "gradients of ", ends[0], " for ", ends[1]),
                                  ends, at::kCPU);
      });
}

/// A rank's part of a step, and then of an evaluation of tiny_batch(7).
struct StagedRank {
  std::map<std::string, at::Tensor> gradients;  ///< of its units
  at::Tensor evaluated;                         ///< at the model's end
  std::vector<std::size_t> seen;                ///< units of the evaluation
  std::vector<int> backwards;
};

inline StagedRank run_staged(comm::Communicator& communicator, const strategy::Stages& stages, int micros) {
  const auto rank = communicator.world().rank;
  const auto chain = staged_chain();
  const auto units = pointers(chain);
  const auto mine = strategy::RankStages::of(stages, rank, units);
  std::vector<nn::Unit*> own;
  for (std::size_t i = 0; i < mine.stages.back().end; ++i) own.push_back(units[mine.place_of(i)]);
  step::UnitRunner runner(own, mine, "tiny");
  step::Interpreter interpreter(runner, channels_in(communicator, stages));
  StagedRank ran;
  StagedStep step;
  interpreter.run(strategy::with_transfers(stages.program(rank, micros), stages, rank), step);
  ran.backwards = step.backwards;
  const auto seen = [&](std::size_t unit, const auto&) { ran.seen.push_back(unit); };
  ran.evaluated = interpreter.evaluate(tiny_batch(7), nullptr, seen).states;
  ran.gradients = take_gradients(chain);
  return ran;
}

}  // namespace capstan::testing
