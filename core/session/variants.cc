#include "session/variants.h"

#include "assembly/topology.h"

namespace capstan::session {

using setup::TrainOptions;

std::int64_t global_batch_of(const setup::JobRequest& request, plugin::Host& host) {
  Diagnostics faults;
  const auto config = setup::read_configuration(request, faults, &host);
  faults.throw_if_any();
  if (config.train->global_batch) return *config.train->global_batch;
  const auto loaded = assembly::load_plugins(config, assembly::Needs::model_and_strategies, host, faults);
  const auto topology = assembly::make_topology(config, loaded, faults);
  faults.throw_if_any();
  return topology.batch.global_batch;
}

std::optional<std::int64_t> data_ranks_with(setup::JobRequest request, const std::vector<std::string>& overrides,
                                            std::int64_t global_batch, plugin::Host& host) {
  request.overrides.insert(request.overrides.end(), overrides.begin(), overrides.end());
  try {
    Diagnostics faults;
    auto config = setup::read_configuration(request, faults, &host);
    const auto loaded = assembly::load_plugins(config, assembly::Needs::model_and_strategies, host, faults);
    Diagnostics of_batch;
    const auto mesh = assembly::make_topology(config, loaded, of_batch).mesh;
    const auto ranks = mesh.size(layout::data_axes);
    if (!faults.empty() || ranks < 1 || global_batch % ranks != 0) return {};
    config.train.derive(&TrainOptions::micro_batch, std::int64_t{1});
    config.train.derive(&TrainOptions::accumulation, global_batch / ranks);
    config.train.derive(&TrainOptions::global_batch, global_batch);
    (void)assembly::make_topology(config, loaded, faults);
    return faults.empty() ? std::optional(ranks) : std::nullopt;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace capstan::session
