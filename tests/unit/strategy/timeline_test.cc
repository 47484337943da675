// When actions happen, by hand.
#include <capstan/strategy/program.h>
#include <capstan_catch.h>

#include <limits>
#include <utility>

namespace timeline_test {

using namespace capstan::strategy;
using Kind = Action::Kind;

namespace {

constexpr auto never = std::numeric_limits<double>::infinity();

std::vector<std::pair<double, double>> times(const std::vector<Timeline::Slot>& row) {
  std::vector<std::pair<double, double>> list;
  for (const auto& slot : row) list.emplace_back(slot.begin, slot.end);
  return list;
}

// By position.
std::map<std::size_t, std::string> stuck(const Timeline& timeline) {
  std::map<std::size_t, std::string> texts;
  for (const auto& [position, action] : timeline.stuck) texts[position] = text(action);
  return texts;
}

Action forward(int stage, int micro) { return {Kind::forward, stage, micro}; }
Action backward(int stage, int micro) { return {Kind::backward, stage, micro}; }

// One forward one backward on two positions, two micro-batches.
std::vector<Program> two_positions() {
  return {{forward(0, 0), forward(0, 1), backward(0, 0), backward(0, 1)},
          {forward(1, 0), backward(1, 0), forward(1, 1), backward(1, 1)}};
}

// A forward takes 3, a backward of the first position 5, of the second 7; states travel for 2, gradients for 0.5.
Durations uneven() {
  return {[](std::size_t position, std::size_t, const Action& action) {
            if (action.kind == Kind::forward) return 3.0;
            return position == 0 ? 5.0 : 7.0;
          },
          [](std::size_t, std::size_t, const Action& send) { return send.kind == Kind::send_states ? 2.0 : 0.5; }};
}

}  // namespace

TEST_CASE("one forward one backward on two positions, with durations as they stand") {
  const auto timeline = timeline_of(two_positions());
  REQUIRE(timeline.rows.size() == 2);
  // Position 0 waits from 2 to 4 for the first gradients, and from 6 to 7 for the second ones.
  CHECK(times(timeline.rows[0]) == std::vector<std::pair<double, double>>{{0, 1}, {1, 2}, {4, 6}, {7, 9}});
  CHECK(times(timeline.rows[1]) == std::vector<std::pair<double, double>>{{1, 2}, {2, 4}, {4, 5}, {5, 7}});
  CHECK(timeline.rows[1][2].action == forward(1, 1));
  CHECK(timeline.length == 9);
  CHECK(timeline.busy == std::vector<double>{6, 6});
  CHECK(timeline.stuck.empty());
}

TEST_CASE("transfers are those that positions begin with, from when they are computed") {
  const auto timeline = timeline_of(two_positions());
  REQUIRE(timeline.transfers.size() == 4);
  double states = 0, gradients = 0;
  for (const auto& [send, receive, from, to, begin] : timeline.transfers) {
    CHECK(cargo(send) == cargo(receive));
    CHECK(from == static_cast<std::size_t>(send.stage));
    CHECK(to == static_cast<std::size_t>(receive.stage));
    (send.kind == Kind::send_states ? states : gradients) += begin;
  }
  CHECK(states == 1 + 2);
  CHECK(gradients == 4 + 7);
}

TEST_CASE("durations are the caller's, and a transfer delays who receives and not who sends") {
  const auto timeline = timeline_of(two_positions(), uneven());
  // The second states are there at 8, long before 15; gradients of 15 and 25 are there at 15.5 and 25.5.
  CHECK(times(timeline.rows[0]) == std::vector<std::pair<double, double>>{{0, 3}, {3, 6}, {15.5, 20.5}, {25.5, 30.5}});
  CHECK(times(timeline.rows[1]) == std::vector<std::pair<double, double>>{{5, 8}, {8, 15}, {15, 18}, {18, 25}});
  CHECK(timeline.length == 30.5);
  CHECK(timeline.busy == std::vector<double>{16, 20});
}

TEST_CASE("transfers that programs have change nothing, but places count them") {
  std::vector<Program> programs{
      {forward(0, 0), {Kind::send_states, 0, 0}, {Kind::receive_gradients, 0, 0}, backward(0, 0)},
      {{Kind::receive_states, 1, 0}, forward(1, 0), backward(1, 0)}};
  std::vector<std::size_t> places;
  auto durations = uneven();
  durations.computing = [&, takes = durations.computing](std::size_t position, std::size_t place,
                                                         const Action& action) {
    if (position == 0) places.push_back(place);
    return takes(position, place, action);
  };
  const auto timeline = timeline_of(programs, durations);
  CHECK(places == std::vector<std::size_t>{0, 3});
  CHECK(times(timeline.rows[0]) == std::vector<std::pair<double, double>>{{0, 3}, {15.5, 20.5}});
  CHECK(times(timeline.rows[1]) == std::vector<std::pair<double, double>>{{5, 8}, {8, 15}});
}

TEST_CASE("nobody waits for a backward of weights") {
  const auto timeline = timeline_of({{forward(0, 0), {Kind::backward_input, 0, 0}, {Kind::backward_weight, 0, 0}},
                                     {forward(1, 0), {Kind::backward_input, 1, 0}, {Kind::backward_weight, 1, 0}}});
  CHECK(times(timeline.rows[0]) == std::vector<std::pair<double, double>>{{0, 1}, {3, 4}, {4, 5}});
  CHECK(times(timeline.rows[1]) == std::vector<std::pair<double, double>>{{1, 2}, {2, 3}, {3, 4}});
}

TEST_CASE("one position alone never waits, and its stages need no transfer") {
  const auto timeline = timeline_of({accumulation(2, 3)}, uneven());
  CHECK(timeline.length == 3 * (2 * 3 + 2 * 5));
  CHECK(timeline.busy == std::vector<double>{timeline.length});
  CHECK(timeline.transfers.empty());
  CHECK(timeline_of({{}}).length == 0);
}

TEST_CASE("positions that wait for each other stand where they wait") {
  // Position 0 wants gradients of micro-batch 0 before it sends states of 1, position 1 the other way round.
  const auto timeline = timeline_of({{forward(0, 0), backward(0, 0), forward(0, 1), backward(0, 1)},
                                     {forward(1, 0), forward(1, 1), backward(1, 1), backward(1, 0)}});
  CHECK(stuck(timeline) == std::map<std::size_t, std::string>{{0, "backward of micro-batch 0 in stage 0"},
                                                              {1, "forward of micro-batch 1 in stage 1"}});
  CHECK(times(timeline.rows[0]) == std::vector<std::pair<double, double>>{{0, 1}});
  CHECK(times(timeline.rows[1]) == std::vector<std::pair<double, double>>{{1, 2}});
  CHECK(timeline.length == 2);
}

TEST_CASE("what a stage sends that no program has is missing only where the caller says that there is such a stage") {
  const std::vector<Program> programs{{forward(0, 0), backward(0, 0)}};
  CHECK(timeline_of(programs).stuck.empty());
  CHECK(stuck(timeline_of(programs, {}, 2)) ==
        std::map<std::size_t, std::string>{{0, "backward of micro-batch 0 in stage 0"}});
}

TEST_CASE("what takes for ever ends never, and nor does what waits for it") {
  Durations lost;
  lost.transfer = [](std::size_t, std::size_t, const Action& send) {
    return send.kind == Kind::send_gradients && send.micro == 1 ? never : 0.0;
  };
  const auto timeline = timeline_of(two_positions(), lost);
  CHECK(timeline.rows[0][2].end == 6);
  CHECK(timeline.rows[0][3].begin == never);
  CHECK(timeline.rows[1][3].end == 7);
  CHECK(timeline.length == never);
  CHECK(timeline.stuck.empty());
}

}  // namespace timeline_test
