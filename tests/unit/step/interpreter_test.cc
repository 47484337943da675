// Programs over stages give the gradients of the chain, whatever is in flight, and evaluation what its head gives.
#include "step/interpreter.h"

#include <capstan_catch.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "peers/call_log.h"
#include "peers/hang_report.h"
#include "step/staged_chain.h"
#include "support/in_stages.h"

namespace interpreter_test {

using namespace capstan;
using namespace capstan::testing;
using strategy::Action;
using Kind = strategy::Action::Kind;

namespace {

constexpr int micros = 3;

// Ranks that have a stage each run a program of theirs, with every micro-batch in flight at once.
StagedRank run_stages(const strategy::Stages& stages, int ranks) {
  StagedRank outcome;
  std::mutex mutex;
  comm::run_in_process(ranks, [&](comm::Communicator& communicator) {
    const auto mine = run_staged(communicator, stages, micros);
    const std::scoped_lock lock(mutex);
    for (const auto& [name, gradient] : mine.gradients) {
      if (gradient.defined()) outcome.gradients[name] = gradient;
    }
    if (mine.evaluated.defined()) outcome.evaluated = mine.evaluated;
    outcome.seen.insert(outcome.seen.end(), mine.seen.begin(), mine.seen.end());
    if (communicator.world().rank == 0) outcome.backwards = mine.backwards;
  });
  return outcome;
}

strategy::Program forwards_then_backwards(const std::vector<int>& stages) {
  strategy::Program program;
  for (const int stage : stages) {
    for (int m = 0; m < micros; ++m) program.push_back({Kind::forward, stage, m});
  }
  for (auto at = stages.size(); at-- > 0;) {
    for (int m = micros; m-- > 0;) program.push_back({Kind::backward, stages[at], m});
  }
  return program;
}

void check(const StagedRank& outcome, const std::vector<int>& backwards) {
  const auto expected = expected_gradients(micros);
  REQUIRE(outcome.gradients.size() == expected.size());
  for (const auto& [name, gradient] : expected) {
    INFO(name);
    // Micro-batches are added up in another order.
    CHECK(at::allclose(outcome.gradients.at(name), gradient, 1e-13, 1e-13));
  }
  const auto chain = staged_chain();
  CHECK(at::equal(outcome.evaluated, plain_loss(chain, tiny_batch(7)).detach()));
  CHECK(std::set<std::size_t>(outcome.seen.begin(), outcome.seen.end()) == std::set<std::size_t>{0, 1, 2, 3, 4});
  CHECK(outcome.backwards == backwards);
}

}  // namespace

TEST_CASE("two ranks with a stage each, all micro-batches in flight: states, sums and their gradients cross") {
  const auto program = [](int position, int) { return forwards_then_backwards({position}); };
  check(run_stages({{0, 2}, {0, 1}, program}, 2), {0, 1, 2});
}

TEST_CASE("what is in flight between three ranks, in turn and there and back, stays in order") {
  const auto turns = [](int position, int m) { return testing::one_forward_one_backward(3, position, m); };
  check(run_stages({{0, 1, 3}, {0, 1, 2}, turns}, 3), {0, 1, 2});
  for (const std::vector<int>& positions : {std::vector<int>{0, 1, 0, 1}, {0, 1, 1, 0}}) {
    const auto program = [&](int position, int m) { return testing::all_forwards_first(positions, position, m); };
    check(run_stages({{0, 1, 2, 3}, positions, program}, 2), {0, 1, 2, 3, 4, 5});
  }
}

TEST_CASE("a rank with two stages counts its backwards in the program's order") {
  const auto program = [](int position, int) {
    return position == 0 ? forwards_then_backwards({0, 2}) : forwards_then_backwards({1});
  };
  check(run_stages({{0, 1, 3}, {0, 1, 0}, program}, 2), {0, 1, 2, 3, 4, 5});
}

TEST_CASE("a forward that is directly followed by its backward is offered as one, and nothing else is") {
  const auto chain = staged_chain();
  step::UnitRunner runner(pointers(chain));
  step::Interpreter interpreter(runner);
  struct Offered : StagedStep {
    void forward_backward(step::Interpreter& all, int micro) override {
      whole.push_back(micro);
      all.forward_backward(micro, tiny_batch(micro), *this);
    }
    std::vector<int> whole;
  } step;
  interpreter.run({{Kind::forward, 0, 0},
                   {Kind::forward, 0, 1},
                   {Kind::backward, 0, 1},
                   {Kind::backward, 0, 0},
                   {Kind::forward, 0, 2},
                   {Kind::backward, 0, 2}},
                  step);
  CHECK(step.whole == std::vector<int>{1, 2});
  const auto expected = expected_gradients(micros);
  for (const auto& [name, gradient] : take_gradients(chain)) {
    INFO(name);
    CHECK(at::allclose(gradient, expected.at(name), 1e-13, 1e-13));
  }
}

namespace {

// A way between two positions of which this rank is one and the other does not exist. It notes calls, and while it
// receives, what a hang report would say.
class OneSided final : public comm::Group {
 public:
  OneSided(std::string name, int rank, std::vector<std::string>& events)
      : OneSided(std::move(name), rank, events, std::make_shared<peers::CallLog>()) {}
  std::string report;

 private:
  OneSided(std::string name, int rank, std::vector<std::string>& events, std::shared_ptr<peers::CallLog> log)
      : Group(std::move(name), {0, 1}, rank, at::kCPU, log), events_(events), log_(std::move(log)) {}
  Rest do_start_send(const at::Tensor&, int) override {
    return [] {};
  }
  Rest do_start_receive(const at::Tensor& tensor, int from) override {
    events_.push_back("started: " + log_->last()->label);
    return Group::do_start_receive(tensor, from);
  }
  // A header says: one tensor [2, 4, 5] of float64 that requires gradients, and a sum.
  void do_receive(const at::Tensor& tensor, int) override {
    events_.push_back("received: " + log_->last()->label);
    const auto calls = log_->in_flight();
    report = peers::hang_report(calls.front(), {{1, "b", true, peers::describe_calls(*log_)}});
    tensor.fill_(0);
    if (tensor.scalar_type() != at::kLong) return;
    constexpr auto dtype = static_cast<std::int64_t>(at::kDouble);
    const std::vector<std::int64_t> header{2, dtype, 1, 3, 2, 4, 5, dtype, 1, 0};
    tensor.narrow(0, 0, static_cast<std::int64_t>(header.size())).copy_(at::tensor(header, at::kLong));
  }
  void do_all_reduce(const at::Tensor&, comm::ReduceOp) override {}
  void do_all_gather(const at::Tensor&, const at::Tensor&) override {}
  void do_reduce_scatter(const at::Tensor&, const at::Tensor&) override {}
  void do_broadcast(const at::Tensor&, int) override {}
  void do_all_to_all(const at::Tensor&, const at::Tensor&, const std::vector<std::int64_t>&,
                     const std::vector<std::int64_t>&) override {}
  void do_barrier() override {}

  std::vector<std::string>& events_;
  std::shared_ptr<peers::CallLog> log_;
};

}  // namespace

TEST_CASE("what comes next travels while a stage computes, and reports name its stage and micro-batch") {
  const auto chain = staged_chain();
  const auto units = pointers(chain);
  const strategy::Stages stages{{0, 2}, {0, 1}, nullptr};
  const auto mine = strategy::RankStages::of(stages, 1, units);
  step::UnitRunner runner({units.begin() + 2, units.end()}, mine, "tiny");
  std::vector<std::string> events;
  const auto states = std::make_shared<OneSided>("states of 0 for 1", 1, events);
  step::Interpreter interpreter(
      runner, {{{0, 1, true}, states}, {{1, 0, false}, std::make_shared<OneSided>("gradients", 0, events)}});
  struct Told : StagedStep {
    explicit Told(std::vector<std::string>& log) : events(log) {}
    void before(const Action& action) override { events.push_back(strategy::text(action)); }
    std::vector<std::string>& events;
  } step(events);
  interpreter.run({{Kind::receive_states, 1, 0},
                   {Kind::forward, 1, 0},
                   {Kind::receive_states, 1, 1},
                   {Kind::backward, 1, 0},
                   {Kind::send_gradients, 1, 0},
                   {Kind::forward, 1, 1}},
                  step);
  const std::string first = "states of micro-batch 0 from stage 0 to 1",
                    second = "states of micro-batch 1 from stage 0 to 1";
  CHECK(events == std::vector<std::string>{
                      "receive states of micro-batch 0 in stage 1",
                      "received: " + first,  // the header, then the state and the sum
                      "started: " + first, "started: " + first, "forward of micro-batch 0 in stage 1",
                      "received: " + first, "received: " + first, "receive states of micro-batch 1 in stage 1",
                      "started: " + second, "started: " + second, "backward of micro-batch 0 in stage 1",
                      "send gradients of micro-batch 0 in stage 1", "forward of micro-batch 1 in stage 1",
                      "received: " + second, "received: " + second});
  CHECK_THAT(states->report,
             Contains("transfer '" + second + "' of group states of 0 for 1 (0 to 1), call 5, has not ended"));
}

TEST_CASE("a position that fails is named to those that wait for it, with the stage and the micro-batch") {
  std::string told;
  std::atomic<bool> has_first{false};  // the second position has the first micro-batch
  const auto run = [&](comm::Communicator& communicator) {
    const auto rank = communicator.world().rank;
    const auto chain = staged_chain();
    const auto units = pointers(chain);
    const strategy::Stages stages{
        {0, 2}, {0, 1}, [](int position, int) { return forwards_then_backwards({position}); }};
    const auto mine = strategy::RankStages::of(stages, rank, units);
    step::UnitRunner runner(rank == 0 ? std::vector<nn::Unit*>{units.begin(), units.begin() + 2}
                                      : std::vector<nn::Unit*>{units.begin() + 2, units.end()},
                            mine, "tiny");
    const auto channels = channels_in(communicator, stages);
    step::Interpreter interpreter(runner, channels);
    struct Failing : StagedStep {
      Failing(int its_rank, std::atomic<bool>& first) : rank(its_rank), has_first(first) {}
      void computed(const step::MicroContext&) override {
        if (rank == 1) has_first = true;
        if (rank == 1 || ++forwards < 2) return;
        while (!has_first) std::this_thread::yield();
        throw Error("out of memory", "use less");
      }
      int rank;
      std::atomic<bool>& has_first;
      int forwards = 0;
    } step(rank, has_first);
    try {
      interpreter.run(strategy::with_transfers(stages.program(rank, micros), stages, rank), step);
    } catch (const comm::PeerFailed& error) {
      told = error.what();
      throw;
    }
  };
  CHECK_THROWS_WITH(comm::run_in_process(2, run), Contains("out of memory"));
  CHECK_THAT(told,
             Contains("in transfer 'states of micro-batch 1 from stage 0 to 1' of group states of 0 for 1 (0 to 1)"));
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

}  // namespace interpreter_test
