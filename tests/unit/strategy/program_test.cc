#include <capstan/strategy/program.h>
#include <capstan_catch.h>

#include <numeric>

#include "support/in_order.h"
#include "support/in_stages.h"

namespace program_test {

using namespace capstan::strategy;
using Kind = Action::Kind;

namespace {

std::vector<std::string> texts(const Program& program) {
  std::vector<std::string> lines;
  for (const auto& action : program) lines.push_back(text(action));
  return lines;
}

}  // namespace

TEST_CASE("accumulation is forward and backward of one micro-batch after the other") {
  CHECK(texts(accumulation(1, 2)) ==
        texts({{Kind::forward, 0, 0}, {Kind::backward, 0, 0}, {Kind::forward, 0, 1}, {Kind::backward, 0, 1}}));
  CHECK(texts(accumulation(2, 1)) ==
        texts({{Kind::forward, 0, 0}, {Kind::forward, 1, 0}, {Kind::backward, 1, 0}, {Kind::backward, 0, 0}}));
}

TEST_CASE("transfers stand around what needs them, where the neighbouring stage is another position's") {
  const Program outer{{Kind::forward, 0, 0}, {Kind::backward, 0, 0}};
  const Program inner{{Kind::forward, 1, 0}, {Kind::forward, 2, 0}, {Kind::backward, 2, 0}, {Kind::backward, 1, 0}};
  const Stages stages{{0, 1, 2}, {0, 1, 1}, [&](int position, int) { return position == 0 ? outer : inner; }};
  CHECK(
      texts(with_transfers(outer, stages, 0)) ==
      texts(
          {{Kind::forward, 0, 0}, {Kind::send_states, 0, 0}, {Kind::receive_gradients, 0, 0}, {Kind::backward, 0, 0}}));
  Program expected{{Kind::receive_states, 1, 0}};
  expected.insert(expected.end(), inner.begin(), inner.end());
  expected.push_back({Kind::send_gradients, 1, 0});
  CHECK(texts(with_transfers(inner, stages, 1)) == texts(expected));
}

TEST_CASE("of a backward in two parts, only that of inputs has transfers") {
  const Program outer{{Kind::forward, 0, 0}, {Kind::backward_input, 0, 0}, {Kind::backward_weight, 0, 0}};
  const Program inner{{Kind::forward, 1, 0}, {Kind::backward_input, 1, 0}, {Kind::backward_weight, 1, 0}};
  const Stages stages{{0, 1}, {0, 1}, [&](int position, int) { return position == 0 ? outer : inner; }};
  CHECK(texts(with_transfers(outer, stages, 0)) == texts({{Kind::forward, 0, 0},
                                                          {Kind::send_states, 0, 0},
                                                          {Kind::receive_gradients, 0, 0},
                                                          {Kind::backward_input, 0, 0},
                                                          {Kind::backward_weight, 0, 0}}));
  CHECK(texts(with_transfers(inner, stages, 1)) == texts({{Kind::receive_states, 1, 0},
                                                          {Kind::forward, 1, 0},
                                                          {Kind::backward_input, 1, 0},
                                                          {Kind::send_gradients, 1, 0},
                                                          {Kind::backward_weight, 1, 0}}));
}

TEST_CASE("a position receives in the order in which the other sends") {
  const Program sender{{Kind::forward, 0, 1}, {Kind::forward, 0, 0}};
  const Program receiver{{Kind::forward, 1, 0}, {Kind::forward, 1, 1}};
  const Stages stages{{0, 1}, {0, 1}, [&](int position, int) { return position == 0 ? sender : receiver; }};
  CHECK(
      texts(with_transfers(receiver, stages, 1)) ==
      texts(
          {{Kind::receive_states, 1, 1}, {Kind::receive_states, 1, 0}, {Kind::forward, 1, 0}, {Kind::forward, 1, 1}}));
}

TEST_CASE("a receive starts as soon as the stage before is done, whatever the position still computes") {
  const Stages stages{{0, 1}, {0, 1}, [](int position, int micros) {
                        return capstan::testing::one_forward_one_backward(2, position, micros);
                      }};
  CHECK(texts(with_transfers(stages.program(1, 2), stages, 1)) == texts({{Kind::receive_states, 1, 0},
                                                                         {Kind::forward, 1, 0},
                                                                         {Kind::receive_states, 1, 1},
                                                                         {Kind::backward, 1, 0},
                                                                         {Kind::send_gradients, 1, 0},
                                                                         {Kind::forward, 1, 1},
                                                                         {Kind::backward, 1, 1},
                                                                         {Kind::send_gradients, 1, 1}}));
}

TEST_CASE("programs end where each position does one thing after the other and transfers wait for both ends") {
  for (const int positions : {2, 3, 4, 8}) {
    Stages stages;
    stages.positions.resize(static_cast<std::size_t>(positions));
    std::iota(stages.positions.begin(), stages.positions.end(), 0);
    stages.program = [positions](int position, int micros) {
      return capstan::testing::one_forward_one_backward(positions, position, micros);
    };
    for (const int micros : {1, 2, 5, 16}) {
      INFO(positions << " positions, " << micros << " micro-batches");
      CHECK(capstan::testing::end_in_order(stages, micros));
    }
  }
  // What each sends at once and receives just before it needs it would not end.
  const Program sender{{Kind::forward, 0, 0},
                       {Kind::send_states, 0, 0},
                       {Kind::forward, 0, 1},
                       {Kind::send_states, 0, 1},
                       {Kind::receive_gradients, 0, 0}};
  const Program receiver{
      {Kind::receive_states, 1, 0}, {Kind::forward, 1, 0}, {Kind::send_gradients, 1, 0}, {Kind::receive_states, 1, 1}};
  CHECK_FALSE(capstan::testing::end_in_order({sender, receiver}));
}

TEST_CASE("what no other position sends is an error") {
  const Stages stages{{0, 1}, {0, 1}, [](int, int) { return Program(); }};
  CHECK_THROWS_WITH(with_transfers({{Kind::forward, 1, 0}}, stages, 1),
                    Contains("nothing sends states of micro-batch 0 from stage 0 to 1"));
}

TEST_CASE("an action's text names the stage and the micro-batch") {
  CHECK(text({Kind::receive_gradients, 2, 5}) == "receive gradients of micro-batch 5 in stage 2");
}

TEST_CASE("what crosses has the same words on both ends, as the calls of two ranks must have") {
  CHECK(cargo({Kind::send_states, 1, 4}) == "states of micro-batch 4 from stage 1 to 2");
  CHECK(cargo({Kind::receive_states, 2, 4}) == cargo({Kind::send_states, 1, 4}));
  CHECK(cargo({Kind::send_gradients, 2, 4}) == "gradients of micro-batch 4 from stage 2 to 1");
  CHECK(cargo({Kind::receive_gradients, 1, 4}) == cargo({Kind::send_gradients, 2, 4}));
  CHECK_THROWS_AS(cargo({Kind::forward, 0, 0}), std::logic_error);
}

}  // namespace program_test
