#include "job/assemble_frozen.h"

#include <capstan/base/text.h>

#include <utility>

namespace capstan::job {

FrozenModel assemble_frozen(const FrozenPlugin& plugin, const Strategies& strategies, const Topology& topology,
                            const std::shared_ptr<strategy::MeshGroups>& groups) {
  auto model = std::make_shared<AssembledModel>();
  static_cast<BuiltModel&>(*model) = build_model(plugin.model);
  for (auto* record : nn::parameters(model->units)) record->trainable = false;
  model->groups = groups;
  auto own = fresh_strategies(strategies, topology);
  try {
    place(*model, own, topology);
  } catch (Error& error) {
    error.add_context(cat("the objective's model '", plugin.name, "' was placed"));
    throw;
  }
  model->rank_stages = strategy::RankStages::whole(pointers(model->units));
  return {plugin, std::move(own), std::move(model)};
}

}  // namespace capstan::job
