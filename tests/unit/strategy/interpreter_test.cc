// Programs over stages give the gradients of the chain, whatever is in flight, and evaluation what its head gives.
#include "strategy/interpreter.h"

#include <capstan/comm/communicator.h>
#include <capstan_catch.h>

#include <mutex>

#include "strategy/tiny_units.h"

using namespace capstan;
using namespace capstan::testing;
using strategy::Action;
using Kind = strategy::Action::Kind;

namespace {

constexpr int micros = 3;

TinyChain make_chain() {
  TinyChain chain;
  chain.push_back(std::make_unique<TinyTable>(tiny_weight("table", {7, 5}, true), true));
  for (int i = 1; i < 4; ++i)
    chain.push_back(std::make_unique<TinyLayer>("layer" + std::to_string(i), true, TinyLayer::Sizes{}, 0.2));
  chain.push_back(std::make_unique<TinyHead>(tiny_weight("head", {6, 5}, true)));
  bind_leaves(chain);
  return chain;
}

strategy::Start start_of(const nn::Batch& /*batch*/, const nn::Hidden& out) {
  return {out.states, at::ones({}, at::kDouble)};
}

std::map<std::string, at::Tensor> expected_gradients() {
  const auto chain = make_chain();
  for (int m = 0; m < micros; ++m)
    torch::autograd::backward({plain_loss(chain, tiny_batch(m))}, {at::ones({}, at::kDouble)});
  return take_gradients(chain);
}

struct Outcome {
  std::map<std::string, at::Tensor> gradients;
  at::Tensor evaluated;
  std::vector<std::size_t> seen;
  std::vector<int> backwards;
};

// Ranks that have a stage each run a program of theirs, with every micro-batch in flight at once.
Outcome run_stages(const strategy::Stages& stages, int ranks) {
  Outcome outcome;
  std::mutex mutex;
  comm::run_in_process(ranks, [&](comm::Communicator& communicator) {
    const auto rank = communicator.world().rank;
    std::vector<int> all(static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; ++r) all[static_cast<std::size_t>(r)] = r;
    const auto chain = make_chain();
    const auto units = pointers(chain);
    const auto mine = strategy::RankStages::of(stages, rank, units);
    std::vector<nn::Unit*> own;
    for (std::size_t i = 0; i < mine.stages.back().end; ++i) own.push_back(units[mine.place_of(i)]);
    strategy::UnitRunner runner(own, mine, "tiny");
    strategy::Interpreter interpreter(
        runner, {communicator.group("states", all, at::kCPU), communicator.group("gradients", all, at::kCPU)});
    std::vector<int> order;
    strategy::Interpreter::Calls calls;
    calls.batch = [](int micro) { return tiny_batch(micro); };
    calls.before_backward = [&](int index) { order.push_back(index); };
    calls.start = start_of;
    interpreter.run(strategy::with_transfers(stages.program(rank, micros), stages, rank), calls);
    std::vector<std::size_t> seen;
    const auto out = interpreter.evaluate(tiny_batch(7), [&](std::size_t unit, const auto&) { seen.push_back(unit); });
    const std::scoped_lock lock(mutex);
    for (auto& [name, gradient] : take_gradients(chain)) {
      if (gradient.defined()) outcome.gradients[name] = gradient;
    }
    if (out.states.defined()) outcome.evaluated = out.states;
    outcome.seen.insert(outcome.seen.end(), seen.begin(), seen.end());
    if (rank == 0) outcome.backwards = order;
  });
  return outcome;
}

strategy::Program forwards_then_backwards(const std::vector<int>& stages) {
  strategy::Program program;
  for (const int stage : stages) {
    for (int m = 0; m < micros; ++m) program.push_back({Kind::forward, stage, m});
  }
  for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
    for (int m = micros; m-- > 0;) program.push_back({Kind::backward, *stage, m});
  }
  return program;
}

void check(const Outcome& outcome, const std::vector<int>& backwards) {
  const auto expected = expected_gradients();
  REQUIRE(outcome.gradients.size() == expected.size());
  for (const auto& [name, gradient] : expected) {
    INFO(name);
    // Micro-batches are added up in another order.
    CHECK(at::allclose(outcome.gradients.at(name), gradient, 1e-13, 1e-13));
  }
  const auto chain = make_chain();
  CHECK(at::equal(outcome.evaluated, plain_loss(chain, tiny_batch(7)).detach()));
  CHECK(std::set<std::size_t>(outcome.seen.begin(), outcome.seen.end()) == std::set<std::size_t>{0, 1, 2, 3, 4});
  CHECK(outcome.backwards == backwards);
}

}  // namespace

TEST_CASE("two ranks with a stage each, all micro-batches in flight: states, sums and their gradients cross") {
  const auto program = [](int position, int) { return forwards_then_backwards({position}); };
  check(run_stages({{0, 2}, {0, 1}, program}, 2), {0, 1, 2});
}

TEST_CASE("a rank with two stages counts its backwards in the program's order") {
  const auto program = [](int position, int) {
    return position == 0 ? forwards_then_backwards({0, 2}) : forwards_then_backwards({1});
  };
  check(run_stages({{0, 1, 3}, {0, 1, 0}, program}, 2), {0, 1, 2, 3, 4, 5});
}

TEST_CASE("a forward that is directly followed by its backward is offered as one, and nothing else is") {
  const auto chain = make_chain();
  strategy::UnitRunner runner(pointers(chain));
  strategy::Interpreter interpreter(runner);
  std::vector<int> whole;
  strategy::Interpreter::Calls calls;
  calls.batch = [](int micro) { return tiny_batch(micro); };
  calls.start = start_of;
  calls.whole = [&](int micro, const auto& both) {
    whole.push_back(micro);
    both(tiny_batch(micro));
  };
  interpreter.run({{Kind::forward, 0, 0},
                   {Kind::forward, 0, 1},
                   {Kind::backward, 0, 1},
                   {Kind::backward, 0, 0},
                   {Kind::forward, 0, 2},
                   {Kind::backward, 0, 2}},
                  calls);
  CHECK(whole == std::vector<int>{1, 2});
  const auto expected = expected_gradients();
  for (const auto& [name, gradient] : take_gradients(chain)) {
    INFO(name);
    CHECK(at::allclose(gradient, expected.at(name), 1e-13, 1e-13));
  }
}

TEST_CASE("backwards in two parts give the same gradients, and each part is counted") {
  const auto program = [](int position, int) {
    strategy::Program split;
    for (const auto& action : forwards_then_backwards({position})) {
      const bool is_backward = action.kind == Kind::backward;
      split.push_back({is_backward ? Kind::backward_input : action.kind, action.stage, action.micro});
    }
    for (int m = 0; m < micros; ++m) split.push_back({Kind::backward_weight, position, m});
    return split;
  };
  check(run_stages({{0, 2}, {0, 1}, program}, 2), {0, 1, 2, 3, 4, 5});
}
