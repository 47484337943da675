// Schedules of many sizes pass the judge; their bubbles and activations are those of theory.
#include "plugins/strategies/pipeline_parallel/schedules.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <algorithm>

#include "rows.h"
#include "support/in_order.h"

namespace schedules_test {

using namespace pipeline_parallel;
using capstan::cat;

namespace {

Judgement judged(const Table& table, int micros) {
  auto judgement = judge(table, micros);
  if (const auto& fault = judgement.fault)
    FAIL(cat("position ", fault->position, ", action ", fault->action, ": ", fault->what));
  const capstan::strategy::Stages stages{
      {}, table.positions, [&](int position, int) { return table.rows[static_cast<std::size_t>(position)]; }};
  CHECK(capstan::testing::end_in_order(stages, micros));
  return judgement;
}

// Units of time in which a position waits: the length that is not its work of 3 for each stage and micro-batch.
double waiting(const Table& table, int micros) {
  return judged(table, micros).timeline.length - 3.0 * micros * table.stages() / table.ranks();
}

int most_live(const Table& table, int micros) {
  const auto live = judged(table, micros).live;
  return *std::max_element(live.begin(), live.end());
}

const std::vector<int> many_micros{1, 2, 3, 4, 5, 7, 8, 12, 13, 16, 24};

}  // namespace

TEST_CASE("schedules of two positions, written out") {
  CHECK(text_of(one_forward_one_backward(2, 1, 3).rows[0]) == "0F0 0F1 0B0 0F2 0B1 0B2");
  CHECK(text_of(one_forward_one_backward(2, 1, 3).rows[1]) == "1F0 1B0 1F1 1B1 1F2 1B2");
  CHECK(text_of(one_forward_one_backward(2, 2, 2).rows[0]) == "0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1");
  CHECK(text_of(one_forward_one_backward(2, 2, 2).rows[1]) == "1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1");
  CHECK(text_of(zero_bubble(2, 1, 3).rows[0]) == "0F0 0F1 0I0 0W0 0F2 0I1 0W1 0I2 0W2");
  CHECK(text_of(zero_bubble(2, 1, 3).rows[1]) == "1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2");
  CHECK(text_of(dual_pipe_v(2, 4).rows[0]) ==
        "0F0 0F1 0F2 3F0 3I0 3W0 3F1 0F3 3B1 3F2 0B0 3B2 3F3 0B1 3B3 0I2 0W2 0I3 0W3");
}

TEST_CASE("1F1B waits for three units a position after the first, and holds no more than its place needs") {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const int micros : many_micros) {
      INFO(ranks << " ranks, " << micros << " micro-batches");
      const auto table = one_forward_one_backward(ranks, 1, micros);
      CHECK(waiting(table, micros) == 3 * (ranks - 1));
      CHECK(bubble(judged(table, micros).timeline) == Approx((ranks - 1.0) / (micros + ranks - 1)));
      const auto live = judged(table, micros).live;
      for (int position = 0; position < ranks; ++position)
        CHECK(live[static_cast<std::size_t>(position)] == std::min(micros, ranks - position));
    }
  }
}

TEST_CASE("interleaved: the bubble is shorter by the stages of a rank where groups are full, and any number runs") {
  for (const int ranks : {2, 3, 4, 8}) {
    for (const int chunks : {2, 3, 5}) {
      for (const int micros : many_micros) {
        INFO(ranks << " ranks, " << chunks << " stages each, " << micros << " micro-batches");
        const auto table = one_forward_one_backward(ranks, chunks, micros);
        const auto waits = waiting(table, micros);
        // A stage takes 1 / chunks of the time that it takes alone.
        if (micros % ranks == 0) CHECK(waits == 3 * (ranks - 1));
        CHECK(waits <= 3 * (ranks - 1) * chunks);
        CHECK(most_live(table, micros) <= std::min(micros * chunks, (chunks + 1) * ranks - 1));
      }
    }
  }
}

TEST_CASE("zero bubble waits for one unit a position, and holds no more than position 0 of 1F1B") {
  for (const int ranks : {2, 3, 4, 8}) {
    for (const int micros : many_micros) {
      INFO(ranks << " ranks, " << micros << " micro-batches");
      const auto table = zero_bubble(ranks, 1, micros);
      CHECK(waiting(table, micros) == ranks - 1 + std::max(0, ranks - micros));
      CHECK(most_live(table, micros) == std::min(micros, ranks));
      for (const int chunks : {2, 3}) {
        const auto several = zero_bubble(ranks, chunks, micros);
        if (micros % ranks == 0) CHECK(waiting(several, micros) == ranks - 1);
        CHECK(waiting(several, micros) < waiting(one_forward_one_backward(ranks, chunks, micros), micros));
        CHECK(most_live(several, micros) <= most_live(one_forward_one_backward(ranks, chunks, micros), micros));
      }
    }
  }
}

TEST_CASE("DualPipeV waits for one unit a position from twice as many micro-batches on") {
  for (const int ranks : {2, 3, 4, 8}) {
    for (const int micros : many_micros) {
      INFO(ranks << " ranks, " << micros << " micro-batches");
      const auto table = dual_pipe_v(ranks, micros);
      CHECK(table.positions.front() == table.positions.back());
      if (micros >= 2 * ranks) CHECK(waiting(table, micros) == ranks - 1);
      CHECK(most_live(table, micros) <= 2 * ranks + 1);
    }
  }
}

TEST_CASE("a model without gradients of weights has backwards in one part, in the same order") {
  for (const int micros : {1, 4, 7}) {
    for (const auto& table : {zero_bubble(4, 1, micros), zero_bubble(3, 2, micros), dual_pipe_v(3, micros)}) {
      const auto whole = in_one_part(table);
      judged(whole, micros);
      for (const auto& row : whole.rows)
        CHECK(static_cast<int>(row.size()) == 2 * micros * table.stages() / table.ranks());
    }
  }
  CHECK(text_of(in_one_part(zero_bubble(4, 2, 6))) == text_of(one_forward_one_backward(4, 2, 6)));
}

}  // namespace schedules_test
