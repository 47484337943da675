#include "session/step_hooks.h"

#include <capstan/base/text.h>
#include <capstan/plugin/guard.h>

#include <utility>

#include "assembly/override_points.h"

namespace capstan::session {

void install_step_hooks(const assembly::Strategies& strategies, Session& session, shard::EngineOptions& options) {
  for (const auto& made : strategies) {
    std::unique_ptr<strategy::StepHooks> hooks;
    plugin::guard(made.name, "step", [&] { hooks = made.object->step(); });
    for (auto& [axis, sum] : options.reduce_overrides) {
      const auto point = strategy::gradient_reduction_point(axis);
      if (!assembly::claims(*made.object, point)) continue;
      if (!hooks) assembly::claims_in_vain(made, point, "step");
      sum = [name = made.name, axis = axis, raw = hooks.get(), store = session.state.get()](strategy::Bucket& bucket) {
        bucket.state = &store->of(name, bucket.name);
        plugin::guard(name, cat("reduce of ", bucket.name, " on ", axis), [&] { raw->reduce(bucket, axis); });
      };
    }
    const bool evaluation_weights = assembly::claims(*made.object, strategy::evaluation_weights_point);
    if (evaluation_weights && !hooks) assembly::claims_in_vain(made, strategy::evaluation_weights_point, "step");
    if (hooks) session.steps.push_back({made.name, std::move(hooks), evaluation_weights});
  }
}

}  // namespace capstan::session
