#include <capstan/strategy/program.h>
#include <capstan_catch.h>

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
  const Stages stages{{0, 1, 2}, {0, 1, 1}, {}};
  CHECK(
      texts(with_transfers({{Kind::forward, 0, 3}, {Kind::backward, 0, 3}}, stages, 0)) ==
      texts(
          {{Kind::forward, 0, 3}, {Kind::send_states, 0, 3}, {Kind::receive_gradients, 0, 3}, {Kind::backward, 0, 3}}));
  const Program inner{{Kind::forward, 1, 0}, {Kind::forward, 2, 0}, {Kind::backward, 2, 0}, {Kind::backward, 1, 0}};
  Program expected{{Kind::receive_states, 1, 0}};
  expected.insert(expected.end(), inner.begin(), inner.end());
  expected.push_back({Kind::send_gradients, 1, 0});
  CHECK(texts(with_transfers(inner, stages, 1)) == texts(expected));
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
