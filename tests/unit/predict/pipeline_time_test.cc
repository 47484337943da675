// How long programs take whose positions wait for each other.
#include <capstan/base/error.h>
#include <capstan_catch.h>

#include <numeric>

#include "step_time/step_time.h"
#include "support/in_stages.h"

namespace pipeline_time_test {

using namespace capstan;
using Kind = strategy::Action::Kind;

namespace {

std::vector<strategy::Program> one_forward_one_backward(int positions, int micros) {
  strategy::Stages stages;
  stages.positions.resize(static_cast<std::size_t>(positions));
  std::iota(stages.positions.begin(), stages.positions.end(), 0);
  stages.program = [positions](int p, int m) { return testing::one_forward_one_backward(positions, p, m); };
  std::vector<strategy::Program> programs;
  for (int p = 0; p < positions; ++p)
    programs.push_back(strategy::with_transfers(stages.program(p, micros), stages, p));
  return programs;
}

// A forward takes 1, a backward 2, what is sent arrives `travels` later.
strategy::Timeline run(const std::vector<strategy::Program>& programs, double travels) {
  std::vector<plan::PositionTime> positions;
  for (std::size_t p = 0; p < programs.size(); ++p) {
    const auto stage = static_cast<int>(p);
    positions.push_back({programs[p],
                         {{{Kind::forward, stage, 0}, 0.75, 0.25},  // a layer's collective is a part of it
                          {{Kind::backward, stage, 0}, 2, 0},
                          {{Kind::send_states, stage, 0}, 0, travels},
                          {{Kind::send_gradients, stage, 0}, 0, travels}}});
  }
  return plan::pipeline_time(positions);
}

}  // namespace

TEST_CASE("one forward one backward waits for as many micro-batches as there are other positions") {
  for (const int positions : {2, 4}) {
    for (const int micros : {1, 3, 8}) {
      INFO(positions << " positions, " << micros << " micro-batches");
      const auto time = run(one_forward_one_backward(positions, micros), 0);
      CHECK(time.length == 3.0 * (micros + positions - 1));
      CHECK(time.busy == std::vector<double>(static_cast<std::size_t>(positions), 3.0 * micros));
    }
  }
}

TEST_CASE("what travels delays the receiver, not the sender") {
  // One micro-batch goes there and back; of several, those that follow travel while others compute.
  CHECK(run(one_forward_one_backward(2, 1), 0.5).length == 6 + 2 * 0.5);
  CHECK(run(one_forward_one_backward(2, 8), 0.5).length < 3.0 * 9 + 8 * 2 * 0.5);
  CHECK(run(one_forward_one_backward(2, 8), 0.5).length > 3.0 * 9);
}

TEST_CASE("programs that wait for each other for ever are refused with where they stand") {
  const std::vector<strategy::Program> programs{{{Kind::receive_gradients, 0, 0}, {Kind::backward, 0, 0}},
                                                {{Kind::receive_states, 1, 0}, {Kind::forward, 1, 0}}};
  CHECK_THROWS_WITH(run(programs, 0), Contains("position 0 of pp is at receive gradients of micro-batch 0 in stage 0"));
}

TEST_CASE("a step in stages takes what its longest position takes, and the time in which that one waits") {
  plan::Figures figures;
  figures.product_flops = 1e12;
  figures.bytes_per_second = figures.update_bytes_per_second = figures.all_gather_bytes = 1e12;
  figures.host_elements = 1;
  const auto product = [](std::int64_t giga) {  // takes this number of milliseconds
    plan::MicroStepWork work;
    work.compute.products[{giga * 500, 1000, 1000}] = 1;
    return work;
  };
  const auto sends = [](Kind kind, int stage, int nodes) {
    plan::ActionWork send{{kind, stage, 0}, {}};
    send.work.waited[{"transfer", 2, nodes, std::int64_t{1} << 20}] = 1;
    return send;
  };
  const auto programs = one_forward_one_backward(2, 4);
  const auto predicted = [&](int nodes) {
    std::vector<plan::StepWork> works;
    for (int p = 0; p < 2; ++p) {
      plan::StepWork work;
      const std::int64_t forward = 1 + p;  // the second stage takes twice as long
      work.actions = {{{Kind::forward, p, 0}, product(forward)}, {{Kind::backward, p, 0}, product(2 * forward)}};
      work.actions.push_back(p == 0 ? sends(Kind::send_states, 0, nodes) : sends(Kind::send_gradients, 1, nodes));
      for (const auto& [action, one] : work.actions) {
        if (!strategy::is_transfer(action)) add(work.micro, one);
      }
      work.program = programs[static_cast<std::size_t>(p)];
      works.push_back(std::move(work));
    }
    return works;
  };
  const auto time = plan::step_time(predicted(1), 4, figures);
  CHECK(time.products == Approx(4 * 6e-3));
  // The second position computes without a pause, after the first forward and before the last backward of the first.
  const auto travels = static_cast<double>(1 << 20) / 1e12;
  CHECK(time.bubble == Approx(1e-3 + 2e-3 + 2 * travels));
  CHECK(time.total() == Approx(time.products + time.bubble));
  REQUIRE(time.positions.size() == 2);
  CHECK(time.positions[0].seconds == Approx(4 * 3e-3));
  CHECK(time.positions[1].seconds == Approx(4 * 6e-3));
  CHECK(time.positions[1].seconds_of({Kind::backward, 1, 3}) == Approx(4e-3));
  CHECK(time.positions[0].seconds_of({Kind::send_states, 0, 3}) == Approx(travels));
  CHECK(time.positions[0].seconds_of({Kind::receive_gradients, 0, 3}) == 0);
  CHECK_THAT(plan::step_time_table(time), Contains("waiting for other stages, 11.1 %"));
  CHECK_THAT(plan::step_time(predicted(2), 4, figures).unknown, Contains("bandwidth between nodes"));
  CHECK(plan::step_time(predicted(2), 4, figures, 1e9).bubble > 4e-3);
}

}  // namespace pipeline_time_test
