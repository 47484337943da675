// Tables whose lookups' gradients are exchanged as rows: see table_plan.
#include <algorithm>

#include "shard/plan.h"

namespace capstan::shard {
namespace {

struct Owners {
  int units = 0;
  int lookups = 0;  ///< embeddings that look up themselves
  int others = 0;
};

Owners owners_of(const nn::Weight& weight, const std::vector<nn::Unit*>& units) {
  Owners owners;
  for (const auto* unit : units) {
    const auto& weights = unit->weights();
    owners.units += static_cast<int>(
        std::count_if(weights.begin(), weights.end(), [&](const auto& one) { return one.get() == &weight; }));
    unit->each<nn::Layer>([&](const nn::Layer& layer) {
      const auto owns = [&](const auto& owned) { return owned.weight.get() == &weight; };
      if (&layer == unit || std::none_of(layer.owned().begin(), layer.owned().end(), owns)) return;
      const auto* embedding = dynamic_cast<const nn::Embedding*>(&layer);
      ++(embedding && !embedding->lookup ? owners.lookups : owners.others);
    });
  }
  return owners;
}

bool sums_whole_tables(const EngineOptions& options) {
  // A table that two stages of a rank use is used in two backwards, and rows of several may wait for one that
  // completes.
  const bool has_stages = options.stages && options.stages->stages.size() > 1;
  const bool leaves_some = std::any_of(options.backwards.begin(), options.backwards.end(),
                                       [](const auto& backward) { return !backward.completes; });
  return options.micro_tokens == 0 || has_stages || leaves_some || options.deterministic ||
         options.policy.offload_optim || !options.reduce_overrides.empty();
}

// All ranks of its data group compute with the same whole table.
bool is_whole(const layout::Param& record, const EngineOptions& options) {
  const auto box = record.compute.box(record.shape, options.mesh, options.rank);
  const bool copies =
      layout::has_axis(record.data_axes, layout::Axis::replicate) && options.mesh.size(layout::Axis::replicate) > 1;
  return box.size == record.shape && record.partial_ranks(options.mesh) == 1 && record.local_axes.empty() && !copies;
}

// It is a matrix of rows, trained, and nothing else.
bool is_matrix(const nn::Weight& weight) {
  return weight.trainable() && weight.records().size() == 1 && weight.records().front().shape.size() == 2;
}

// One embedding looks it up, and any other user does so in another run.
bool looks_up_apart(const nn::Weight& weight, const std::vector<std::vector<nn::Unit*>>& uses) {
  const auto first = owners_of(weight, uses.front());
  if (uses.size() > 2 || first.units != 1 || first.lookups != 1 || first.others != 0) return false;
  return uses.size() == 1 || owners_of(weight, uses.back()).lookups == 0;
}

}  // namespace

std::optional<TablePlan> table_plan(const nn::Weight& weight, const std::vector<std::vector<nn::Unit*>>& uses,
                                    const EngineOptions& options) {
  if (sums_whole_tables(options) || !is_matrix(weight) || !looks_up_apart(weight, uses)) return {};
  const auto& record = weight.records().front();
  const auto ranks = options.mesh.size(record.shard_axes());
  if (ranks == 1 || !is_whole(record, options) || ranks * options.micro_tokens > record.shape.front()) return {};
  return TablePlan{options.micro_tokens, uses.size() == 1, (ranks + 1) * options.micro_tokens * record.shape.back()};
}

}  // namespace capstan::shard
