#include "table.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace pipeline_parallel {

using capstan::cat;
using capstan::strategy::Action;
using capstan::strategy::Timeline;
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

// Where a row ends too early, and why.
Fault fault_of_stuck(const Table& table, const Timeline& timeline) {
  const auto& [position, action] = *timeline.stuck.begin();
  const bool is_forward = action.kind == Kind::forward;
  const Action before{is_forward ? Kind::forward : Kind::backward, action.stage + (is_forward ? -1 : 1), action.micro};
  const auto holder = static_cast<std::size_t>(table.positions[static_cast<std::size_t>(before.stage)]);
  return {position, timeline.rows[position].size(),
          cat("it waits for ever: position ", holder, " does not get to ", cell_of(before),
              holder == position ? ", which comes later in this row"
                                 : cat(", since it waits at ", cell_of(timeline.stuck.at(holder))))};
}

int most_live(const std::vector<Timeline::Slot>& row) {
  int live = 0, most = 0;
  for (const auto& slot : row) {
    if (slot.action.kind == Kind::forward) most = std::max(most, ++live);
    if (capstan::strategy::completes_gradients(slot.action.kind)) --live;
  }
  return most;
}

}  // namespace

std::string cell_of(const Action& action) {
  const auto* name = letter(action.kind);
  return name ? cat(action.stage, name, action.micro) : "";
}

double bubble(const Timeline& timeline) {
  const auto all = timeline.length * static_cast<double>(timeline.rows.size());
  return all > 0 ? 1 - std::accumulate(timeline.busy.begin(), timeline.busy.end(), 0.0) / all : 0;
}

Judgement judge(const Table& table, int micros) {
  for (std::size_t position = 0; position < table.rows.size(); ++position) {
    if (auto fault = fault_of_row(table, position, micros)) return {std::move(fault), {}, {}};
  }
  Judgement judgement{{}, capstan::strategy::timeline_of(table.rows), {}};
  if (!judgement.timeline.stuck.empty()) judgement.fault = fault_of_stuck(table, judgement.timeline);
  for (const auto& row : judgement.timeline.rows) judgement.live.push_back(most_live(row));
  return judgement;
}

}  // namespace pipeline_parallel
