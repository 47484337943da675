// The judge of tables sees each thing that can be wrong with one, and where; time and memory are what they are.
#include "plugins/strategies/pipeline_parallel/table.h"

#include <capstan_catch.h>

namespace table_test {

using namespace pipeline_parallel;
using capstan::strategy::Action;
using Kind = Action::Kind;

namespace {

// Two positions with a stage each, two micro-batches; the second position's backwards are in two parts.
Table good() {
  return {{0, 1},
          {{{Kind::forward, 0, 0}, {Kind::forward, 0, 1}, {Kind::backward, 0, 0}, {Kind::backward, 0, 1}},
           {{Kind::forward, 1, 0},
            {Kind::backward_input, 1, 0},
            {Kind::forward, 1, 1},
            {Kind::backward_input, 1, 1},
            {Kind::backward_weight, 1, 0},
            {Kind::backward_weight, 1, 1}}}};
}

struct Wanted {
  std::size_t position;
  std::size_t action;
  std::string what;
};

template <class Change>
void check_fault(const Change& change, const Wanted& wanted) {
  auto table = good();
  change(table);
  const auto fault = judge(table, 2).fault;
  REQUIRE(fault.has_value());
  CHECK(fault->position == wanted.position);
  CHECK(fault->action == wanted.action);
  CHECK_THAT(fault->what, Contains(wanted.what));
}

}  // namespace

TEST_CASE("a good table has no fault, and its times follow from what waits for what") {
  const auto [fault, timeline, live] = judge(good(), 2);
  CHECK_FALSE(fault.has_value());
  // Position 0: F0 0-1, F1 1-2, then it waits for the backward of inputs that ends at 3, B0 3-5, B1 5-7.
  // Position 1: F0 1-2, I0 2-3, F1 3-4, I1 4-5, W0 5-6, W1 6-7.
  CHECK(timeline.length == 7);
  CHECK(timeline.rows[0][2].begin == 3);
  CHECK(timeline.rows[0][3].end == 7);
  CHECK(timeline.rows[1][0].begin == 1);
  CHECK(live == std::vector<int>{2, 2});  // a backward of inputs frees nothing yet
  CHECK(bubble(timeline) == Approx(2.0 / 14));
}

TEST_CASE("each fault of a row is seen where it stands") {
  check_fault([](Table& t) { t.rows[0][1] = {Kind::forward, 0, 0}; }, {0, 1, "it is done twice"});
  check_fault([](Table& t) { t.rows[0][3] = {Kind::backward, 0, 0}; }, {0, 3, "it is done twice"});
  check_fault([](Table& t) { t.rows[1][5] = {Kind::backward_weight, 1, 0}; }, {1, 5, "it is done twice"});
  check_fault([](Table& t) { std::swap(t.rows[0][1], t.rows[0][3]); }, {0, 1, "its forward does not come before it"});
  check_fault([](Table& t) { std::swap(t.rows[1][3], t.rows[1][5]); },
              {1, 3, "its backward of inputs does not come before it"});
  check_fault([](Table& t) { t.rows[1][3].kind = Kind::backward; }, {1, 5, "it is done twice"});
  check_fault([](Table& t) { t.rows[0][3].stage = 1; }, {0, 3, "stage 1 is not this position's"});
  check_fault([](Table& t) { t.rows[0][3].micro = 2; }, {0, 3, "there are 2 micro-batches, from 0"});
  check_fault([](Table& t) { t.rows[0][0].kind = Kind::send_states; }, {0, 0, "it is a transfer"});
}

TEST_CASE("what a row lacks is named") {
  check_fault([](Table& t) { t.rows[0].pop_back(); }, {0, 3, "there is no 0B1"});
  check_fault([](Table& t) { t.rows[1].pop_back(); }, {1, 5, "there is no 1W1"});
  check_fault([](Table& t) { std::erase_if(t.rows[1], [](const auto& a) { return a.micro == 1; }); },
              {1, 3, "there is no 1F1"});
}

TEST_CASE("positions that wait for each other are found") {
  // Position 0 wants the gradients of micro-batch 0 before it sends the states of 1, position 1 the other way round.
  const Table table{{0, 1},
                    {{{Kind::forward, 0, 0}, {Kind::backward, 0, 0}, {Kind::forward, 0, 1}, {Kind::backward, 0, 1}},
                     {{Kind::forward, 1, 0}, {Kind::forward, 1, 1}, {Kind::backward, 1, 1}, {Kind::backward, 1, 0}}}};
  const auto fault = judge(table, 2).fault;
  REQUIRE(fault.has_value());
  CHECK(fault->position == 0);
  CHECK(fault->action == 1);
  CHECK(fault->what == "it waits for ever: position 1 does not get to 1B0, since it waits at 1F1");
}

TEST_CASE("a position that has a stage and the next one waits for itself") {
  const Table table{{0, 0},
                    {{{Kind::forward, 1, 0}, {Kind::forward, 0, 0}, {Kind::backward, 1, 0}, {Kind::backward, 0, 0}}}};
  const auto fault = judge(table, 1).fault;
  REQUIRE(fault.has_value());
  CHECK(fault->action == 0);
  CHECK(fault->what == "it waits for ever: position 0 does not get to 0F0, which comes later in this row");
}

}  // namespace table_test
