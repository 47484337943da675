#include "schedules.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>

namespace pipeline_parallel {

using capstan::strategy::Action;
using capstan::strategy::Program;
using Kind = Action::Kind;

namespace {

// What a rule for more micro-batches gives for those that there are: what is left out, nothing waits for.
Program only(Program program, int micros) {
  std::erase_if(program, [&](const Action& action) { return action.micro >= micros; });
  return program;
}

Program row_in_turn(int ranks, int chunks, int position, int micros) {
  const int groups = (micros + ranks - 1) / ranks;
  const int all = groups * ranks * chunks;
  // The k-th forward of the position, or backward, which goes through the chunks from the last.
  const auto action = [&](Kind kind, int k) {
    const int chunk = k / ranks % chunks;
    const int micro = k / (ranks * chunks) * ranks + k % ranks;
    return Action{kind, (kind == Kind::forward ? chunk : chunks - 1 - chunk) * ranks + position, micro};
  };
  const int later = ranks - 1 - position;
  const int ahead = std::min(all, chunks == 1 ? later : 2 * later + (chunks - 1) * ranks);
  Program row;
  for (int k = 0; k < all + ahead; ++k) {
    if (k < all) row.push_back(action(Kind::forward, k));
    if (k >= ahead) row.push_back(action(Kind::backward, k - ahead));
  }
  return only(std::move(row), micros);
}

// Each backward in two parts, the second `late` backwards later, and at once where no forward follows any more.
Program in_two_parts(const Program& row, std::size_t late) {
  const auto last = std::find_if(row.rbegin(), row.rend(), [](const auto& a) { return a.kind == Kind::forward; });
  const auto forwards_end = row.size() - static_cast<std::size_t>(last - row.rbegin());
  Program split;
  std::deque<Action> left;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const auto& [kind, stage, micro] = row[i];
    if (kind != Kind::backward) {
      split.push_back(row[i]);
      continue;
    }
    split.push_back({Kind::backward_input, stage, micro});
    left.push_back({Kind::backward_weight, stage, micro});
    if (left.size() <= late && i < forwards_end) continue;
    split.push_back(left.front());
    left.pop_front();
  }
  split.insert(split.end(), left.begin(), left.end());
  return split;
}

std::vector<int> positions_in_turn(int ranks, int chunks) {
  std::vector<int> positions;
  for (int stage = 0; stage < ranks * chunks; ++stage) positions.push_back(stage % ranks);
  return positions;
}

// A row of DualPipeV as it is written down: the two stages are on their way down the V (0) and up (1).
class RowInV {
 public:
  RowInV(int ranks, int position) : stages_{position, 2 * ranks - 1 - position} {}

  void forward(std::size_t way) { add(Kind::forward, way, forwards_[way]++); }
  void backward(std::size_t way) { add(Kind::backward, way, backwards_[way]++); }
  void backward_input(std::size_t way) {
    left_.push_back({Kind::backward_weight, stages_[way], backwards_[way]});
    add(Kind::backward_input, way, backwards_[way]++);
  }
  void backward_weight() {
    row_.push_back(left_.front());
    left_.pop_front();
  }
  Program take() { return std::move(row_); }

 private:
  void add(Kind kind, std::size_t way, int micro) { row_.push_back({kind, stages_[way], micro}); }

  std::array<int, 2> stages_;
  std::array<int, 2> forwards_{0, 0}, backwards_{0, 0};
  std::deque<Action> left_;
  Program row_;
};

// The eight phases of DeepSeek's description.
Program row_in_v(int ranks, int position, int micros) {
  const int all = std::max(micros, 2 * ranks);
  const int later = ranks - 1 - position, within = position + 1;
  RowInV row(ranks, position);
  const auto times = [](int count, const auto& what) {
    for (int i = 0; i < count; ++i) what(i);
  };
  times(2 * later, [&](int) { row.forward(0); });
  times(within, [&](int) { row.forward(0), row.forward(1); });
  times(later, [&](int) { row.backward_input(1), row.backward_weight(), row.forward(1); });
  times(all - 2 * ranks + within, [&](int) { row.forward(0), row.backward(1), row.forward(1), row.backward(0); });
  times(later, [&](int) { row.backward(1), row.forward(1), row.backward(0); });
  // From the middle of the next phase on, weights wait for the end.
  int count = 0;
  const auto either = [&](std::size_t way) { count++ < within ? row.backward(way) : row.backward_input(way); };
  times(within, [&](int) { either(1), either(0); });
  times(later, [&](int) { row.backward_weight(), row.backward_input(0); });
  times(within, [&](int) { row.backward_weight(); });
  return only(row.take(), micros);
}

}  // namespace

Table one_forward_one_backward(int ranks, int chunks, int micros) {
  Table table{positions_in_turn(ranks, chunks), {}};
  for (int position = 0; position < ranks; ++position)
    table.rows.push_back(row_in_turn(ranks, chunks, position, micros));
  return table;
}

Table zero_bubble(int ranks, int chunks, int micros) {
  auto table = one_forward_one_backward(ranks, chunks, micros);
  for (int position = 0; position < ranks; ++position) {
    auto& row = table.rows[static_cast<std::size_t>(position)];
    row = in_two_parts(row, static_cast<std::size_t>(position));
  }
  return table;
}

Table dual_pipe_v(int ranks, int micros) {
  Table table;
  for (int stage = 0; stage < 2 * ranks; ++stage)
    table.positions.push_back(stage < ranks ? stage : 2 * ranks - 1 - stage);
  for (int position = 0; position < ranks; ++position) table.rows.push_back(row_in_v(ranks, position, micros));
  return table;
}

Table in_one_part(Table table) {
  for (auto& row : table.rows) {
    std::erase_if(row, [](const auto& action) { return action.kind == Kind::backward_weight; });
    for (auto& action : row) {
      if (action.kind == Kind::backward_input) action.kind = Kind::backward;
    }
  }
  return table;
}

}  // namespace pipeline_parallel
