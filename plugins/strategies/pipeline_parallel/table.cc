#include "table.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <map>
#include <utility>

namespace pipeline_parallel {

using capstan::cat;
using capstan::strategy::Action;
using Kind = Action::Kind;

namespace {

const char* letter(Kind kind) {
  switch (kind) {
    case Kind::forward:
      return "F";
    case Kind::backward:
      return "B";
    case Kind::backward_input:
      return "I";
    case Kind::backward_weight:
      return "W";
    default:
      return nullptr;
  }
}

int duration(Kind kind) { return kind == Kind::backward ? 2 : 1; }

// What a row has of a micro-batch in a stage.
struct Seen {
  bool forward = false;
  bool backward = false;  // or that of inputs
  bool weights = false;
};

// Judges an action by those before it in its row; "" if nothing is wrong.
std::string fault_after(Seen& seen, Kind kind) {
  const bool repeated = kind == Kind::forward           ? seen.forward
                        : kind == Kind::backward_weight ? seen.weights
                                                        : seen.backward;
  if (repeated) return "it is done twice";
  if (kind == Kind::forward) return seen.forward = true, "";
  if (!seen.forward) return "its forward does not come before it";
  if (kind == Kind::backward_weight && !seen.backward) return "its backward of inputs does not come before it";
  if (kind != Kind::backward_weight) seen.backward = true;
  if (kind != Kind::backward_input) seen.weights = true;
  return "";
}

using RowSeen = std::map<std::pair<int, int>, Seen>;  // by stage and micro-batch

// What a row lacks of a position's stages; "" if nothing.
std::string lacking(RowSeen& seen, const Table& table, int position, int micros) {
  for (int stage = 0; stage < table.stages(); ++stage) {
    if (table.positions[static_cast<std::size_t>(stage)] != position) continue;
    for (int micro = 0; micro < micros; ++micro) {
      const auto& has = seen[{stage, micro}];
      const char* lacks = !has.forward ? "F" : !has.backward ? "B" : !has.weights ? "W" : nullptr;
      if (lacks) return cat("there is no ", stage, lacks, micro);
    }
  }
  return "";
}

std::optional<Fault> fault_of_row(const Table& table, std::size_t position, int micros) {
  const auto& row = table.rows[position];
  const auto judged = [&](Seen& seen, const Action& action) {
    const auto& [kind, stage, micro] = action;
    const bool exists = stage >= 0 && stage < table.stages();
    if (!letter(kind)) return std::string("it is a transfer, and these follow from the rest");
    if (!exists || table.positions[static_cast<std::size_t>(stage)] != static_cast<int>(position))
      return cat("stage ", stage, " is not this position's");
    if (micro < 0 || micro >= micros) return cat("there are ", micros, " micro-batches, from 0");
    return fault_after(seen, kind);
  };
  RowSeen seen;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (const auto what = judged(seen[{row[i].stage, row[i].micro}], row[i]); !what.empty())
      return Fault{position, i, what};
  }
  const auto what = lacking(seen, table, static_cast<int>(position), micros);
  return what.empty() ? std::nullopt : std::optional(Fault{position, row.size(), what});
}

// Runs the rows side by side, each as far as what it waits for is there.
class Clock {
 public:
  explicit Clock(const Table& table)
      : table_(table), next_(table.rows.size(), 0), now_(table.rows.size(), 0), live_(table.rows.size(), 0) {
    timeline_.rows.resize(table.rows.size());
    timeline_.live.assign(table.rows.size(), 0);
  }

  Judgement run() {
    bool moves = true;
    while (moves) {
      moves = false;
      for (std::size_t position = 0; position < table_.rows.size(); ++position) {
        while (step(position)) moves = true;
      }
    }
    timeline_.length = *std::max_element(now_.begin(), now_.end());
    return {stuck(), std::move(timeline_)};
  }

 private:
  using Key = std::pair<int, int>;  // stage and micro-batch

  // What an action needs from another stage; none: nothing.
  std::optional<Action> needed(const Action& action) const {
    const auto [kind, stage, micro] = action;
    if (kind == Kind::forward && stage > 0) return Action{Kind::forward, stage - 1, micro};
    if (capstan::strategy::makes_gradients(kind) && stage + 1 < table_.stages())
      return Action{Kind::backward, stage + 1, micro};
    return std::nullopt;
  }

  std::map<Key, int>& done(Kind kind) { return kind == Kind::forward ? forwards_ : backwards_; }

  bool step(std::size_t position) {
    const auto& row = table_.rows[position];
    if (next_[position] == row.size()) return false;
    const auto& action = row[next_[position]];
    int begin = now_[position];
    if (const auto before = needed(action)) {
      const auto found = done(before->kind).find({before->stage, before->micro});
      if (found == done(before->kind).end()) return false;
      begin = std::max(begin, found->second);
    }
    const int end = begin + duration(action.kind);
    if (action.kind != Kind::backward_weight) done(action.kind)[{action.stage, action.micro}] = end;
    if (action.kind == Kind::forward) timeline_.live[position] = std::max(timeline_.live[position], ++live_[position]);
    if (capstan::strategy::completes_gradients(action.kind)) --live_[position];
    timeline_.rows[position].push_back({action, begin, end});
    now_[position] = end;
    ++next_[position];
    return true;
  }

  // The first position that does not get to its row's end.
  std::optional<Fault> stuck() const {
    for (std::size_t position = 0; position < table_.rows.size(); ++position) {
      if (next_[position] == table_.rows[position].size()) continue;
      const auto before = needed(table_.rows[position][next_[position]]).value();
      const auto holder = static_cast<std::size_t>(table_.positions[static_cast<std::size_t>(before.stage)]);
      const auto waits = cell_of(table_.rows[holder][next_[holder]]);
      return Fault{position, next_[position],
                   cat("it waits for ever: position ", holder, " does not get to ", cell_of(before),
                       holder == position ? ", which comes later in this row" : cat(", since it waits at ", waits))};
    }
    return std::nullopt;
  }

  const Table& table_;
  std::vector<std::size_t> next_;
  std::vector<int> now_;
  std::vector<int> live_;
  std::map<Key, int> forwards_, backwards_;  // when each has ended
  Timeline timeline_;
};

}  // namespace

std::string cell_of(const Action& action) {
  const auto* name = letter(action.kind);
  return name ? cat(action.stage, name, action.micro) : "";
}

double Timeline::bubble() const {
  if (length == 0) return 0;
  int busy = 0;
  for (const auto& row : rows) {
    for (const auto& slot : row) busy += slot.end - slot.begin;
  }
  return 1 - static_cast<double>(busy) / (static_cast<double>(length) * static_cast<double>(rows.size()));
}

Judgement judge(const Table& table, int micros) {
  for (std::size_t position = 0; position < table.rows.size(); ++position) {
    if (auto fault = fault_of_row(table, position, micros)) return {std::move(fault), {}};
  }
  return Clock(table).run();
}

}  // namespace pipeline_parallel
