#include "job/assemble.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include "plugin/guard.h"

#include <algorithm>
#include <map>
#include <set>

#include "job/override_points.h"

namespace capstan::job {
namespace {

strategy::Stages ask(const AssembledModel& model, const Strategies& strategies, const layout::Mesh& mesh) {
  const auto ranks = mesh.size(layout::Axis::pp);
  for (const auto& made : strategies) {
    if (!claims(*made.object, strategy::step_program_point)) continue;
    auto stages = plugin::guard(made.name, "stages", [&] { return made.object->stages(model.units, mesh); });
    if (const auto fault = strategy::fault_of(stages, model.units.size(), ranks); !fault.empty()) {
      throw Error(cat("strategy '", made.name, "' cuts the model into stages that cannot be: ", fault),
                  "correct what it returns from stages()");
    }
    return stages;
  }
  if (ranks > 1) {
    throw Error(cat("the mesh has pp = ", ranks, ", but no strategy cuts the model into stages"),
                cat("the strategy that asks for pp claims \"", strategy::step_program_point, "\""));
  }
  return {{0}, {0}, [](int, int micros) { return strategy::accumulation(1, micros); }};
}

// The positions of the stages that use each weight.
std::map<nn::Weight*, std::set<int>> users_of(const AssembledModel& model) {
  std::map<nn::Weight*, std::set<int>> users;
  std::size_t stage = 0;
  for (std::size_t i = 0; i < model.units.size(); ++i) {
    while (stage + 1 < model.stages.first_units.size() && model.stages.first_units[stage + 1] <= i) ++stage;
    for (const auto& weight : model.units[i]->weights()) users[weight.get()].insert(model.stages.positions[stage]);
  }
  return users;
}

// What no rank holds would be trained and saved on no rank, in silence.
void refuse_unheld(const AssembledModel& model, const layout::Mesh& mesh) {
  for (const auto* record : nn::parameters(model.units)) {
    const auto& only = record->compute.only;
    if (!only) continue;
    const auto is_there = [&](int position) { return position >= 0 && position < mesh.size(only->axis); };
    if (std::any_of(only->positions.begin(), only->positions.end(), is_there)) continue;
    throw Error(cat("no rank holds ", record->name, ": its layout names no position on the mesh's axis ", only->axis),
                "correct what a strategy's place() sets as the record's compute.only");
  }
}

}  // namespace

void cut_into_stages(AssembledModel& model, const Strategies& strategies, const Topology& topology) {
  model.stages = ask(model, strategies, topology.mesh);
  model.rank_stages = model.stages_at(topology.position());
  refuse_unheld(model, topology.mesh);
  if (topology.mesh.size(layout::Axis::pp) == 1) return;
  for (auto& [weight, positions] : users_of(model)) {
    for (auto& record : weight->records()) {
      record.compute.only = {layout::Axis::pp, {positions.begin(), positions.end()}};
      if (positions.size() > 1) record.partial_axes.push_back(layout::Axis::pp);
    }
  }
}

strategy::RankStages AssembledModel::stages_at(int position) const {
  return strategy::RankStages::of(stages, position, pointers(units));
}

std::vector<nn::Unit*> AssembledModel::units_of(const strategy::RankStages& some) const {
  std::vector<nn::Unit*> list;
  for (const auto& stage : some.stages) {
    for (auto i = stage.first; i < stage.end; ++i) list.push_back(units[stage.place + i - stage.first].get());
  }
  return list;
}

strategy::Program AssembledModel::program(int micros, int position) const {
  return strategy::with_transfers(stages.program(position, micros), stages, position);
}

}  // namespace capstan::job
