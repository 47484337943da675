#include "job/topology.h"

#include <utility>

namespace capstan::job {
namespace {

// What strategies say before anything is allocated.
struct Asked {
  layout::MeshSpec mesh;
  std::vector<strategy::ClaimsOf> claims;
  strategy::ShardPolicy policy;
};

Asked ask(const Strategies& strategies, int world_size, int ranks_per_node) {
  Asked asked{layout::MeshSpec(world_size, ranks_per_node), {}, {}};
  for (const auto& made : strategies) {
    plugin::guard(made.name, "mesh", [&] { made.object->mesh(asked.mesh); });
    asked.claims.push_back({made.name, made.where, {}});
    plugin::guard(made.name, "claim", [&] { made.object->claim(asked.claims.back().claims); });
    plugin::guard(made.name, "shard", [&] { made.object->shard(asked.policy); });
  }
  return asked;
}

setup::BatchShape batch_of(const setup::Configuration& config, std::int64_t data_ranks, Diagnostics& faults) {
  const auto& t = config.train;
  if (!config.trains()) return {t->eval_batch, 1, t->eval_batch * data_ranks, data_ranks};
  // "auto" stands for a size that is not given, where the other two are.
  const bool is_open = config.auto_micro_batch && t->accumulation && t->global_batch;
  return setup::resolve_batch({is_open ? std::nullopt : t->micro_batch, t.where(&setup::TrainOptions::micro_batch)},
                              {t->accumulation, t.where(&setup::TrainOptions::accumulation)},
                              {t->global_batch, t.where(&setup::TrainOptions::global_batch)}, data_ranks, faults);
}

// All micro-batches of a step pass through a stage: its parameters stay, unless the user says otherwise.
bool gathers_once(const setup::Configuration& config, const Topology& topology) {
  const bool in_stages = topology.mesh.size(layout::Axis::pp) > 1 && topology.batch.accumulation > 1;
  const bool by_itself = config.train->regather == "auto" && in_stages && topology.policy.reshard_size == 0;
  return config.trains() && topology.policy.shard_param && (by_itself || config.train->regather == "step");
}

}  // namespace

Topology Topology::at_position(int position) const {
  auto other = *this;
  other.rank = mesh.ranks_along({layout::Axis::pp}, rank).at(static_cast<std::size_t>(position));
  return other;
}

Topology make_topology(const setup::Configuration& config, const Plugins& plugins, Diagnostics& faults) {
  const auto& request = config.request;
  Topology topology;
  topology.rank = request.rank;
  topology.ranks_per_node = request.ranks_per_node > 0 ? request.ranks_per_node : request.world_size;
  auto asked = ask(plugins.strategies, request.world_size, topology.ranks_per_node);
  topology.policy = std::move(asked.policy);
  strategy::judge_claims(asked.claims, faults);
  topology.mesh = layout::resolve(asked.mesh, faults);
  topology.batch = batch_of(config, topology.mesh.size(layout::sample_axes), faults);
  topology.batch.sequences = plugins.data_parts.form.sequences;
  topology.gathers_once = gathers_once(config, topology);
  if (!faults.empty()) return topology;  // sizes that are wrong would only give follow-up faults
  const auto facts = facts_of(config, plugins.model_facts, topology, 0);
  each_strategy(plugins.strategies, "check", [&](strategy::Strategy& strategy) { strategy.check(facts, faults); });
  return topology;
}

strategy::Facts facts_of(const setup::Configuration& config, const nn::ModelFacts& model, const Topology& topology,
                         std::int64_t sample_length) {
  strategy::Facts facts;
  facts.mesh = topology.mesh;
  facts.rank = topology.rank;
  facts.model = model;
  facts.micro_batch = topology.batch.rows();
  facts.accumulation = topology.batch.accumulation;
  facts.sequence_length = sample_length;
  facts.precision = config.train->precision;
  facts.device = config.device;
  if (config.device != "cpu") facts.gpu_capability = config.request.gpu_capability;
  facts.ranks_per_node = topology.ranks_per_node;
  facts.trains = config.trains();
  facts.saves_checkpoints = config.checkpoint->saves();
  return facts;
}

Strategies fresh_strategies(const Strategies& originals, const Topology& topology) {
  auto strategies = originals;
  for (auto& made : strategies) made.object = made.make_another();
  (void)ask(strategies, topology.mesh.world_size(), topology.ranks_per_node);
  return strategies;
}

config::Options<setup::TrainOptions> settled(const config::Options<setup::TrainOptions>& train,
                                             const setup::BatchShape& batch) {
  auto options = train;
  options.derive(&setup::TrainOptions::micro_batch, batch.micro_batch);
  options.derive(&setup::TrainOptions::accumulation, batch.accumulation);
  options.derive(&setup::TrainOptions::global_batch, batch.global_batch);
  return options;
}

}  // namespace capstan::job
