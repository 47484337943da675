#include "setup/session.h"

#include <capstan/base/text.h>
#include <capstan/checkpoint/folder_source.h>
#include <capstan/plugin/guard.h>

#include <algorithm>
#include <numeric>

#include "nn/init_source.h"

namespace capstan::setup {
namespace {

shard::Precision precision_of(const std::string& name, c10::Device device) {
  shard::Precision precision;
  precision.device = device;
  if (name == "bf16") precision.compute = at::kBFloat16;
  if (name == "fp64") precision.compute = precision.master = precision.reduce = at::kDouble;
  return precision;
}

shard::EngineOptions engine_options(const Job& job, c10::Device device) {
  shard::EngineOptions options;
  options.mesh = job.mesh;
  options.rank = job.rank;
  options.precision = precision_of(job.train->precision, device);
  options.policy = job.policy;
  options.accumulation = job.batch.accumulation;
  const auto& reduce = job.train->reduce;
  const bool each_micro_step = reduce == "micro_step" || (reduce == "auto" && job.policy.shard_grad);
  options.reduce = each_micro_step ? shard::ReduceWhen::micro_step : shard::ReduceWhen::step;
  return options;
}

// Calls one phase of every strategy with its name around errors.
template <class Phase>
void each_strategy(const Job& job, const char* name, const Phase& phase) {
  for (const auto& made : job.strategies) plugin::guard(made.name, name, [&] { phase(*made.object); });
}

void wrap(const Job& job, Session& session) {
  for (std::size_t i = 0; i < session.units.size(); ++i) {
    session.runner->add_hooks(i, session.engine->hooks(i));
    each_strategy(job, "wrap", [&](strategy::Strategy& strategy) {
      if (auto hooks = strategy.wrap(*session.units[i])) session.runner->add_hooks(i, std::move(hooks));
      if (strategy.recompute(*session.units[i], i)) session.runner->set_recompute(i, true);
    });
  }
}

// Where the parameters' values come from: the model's folder, every fault of it at once, or their initialisation.
std::unique_ptr<layout::Source> make_source(const Job& job, const std::vector<nn::Unit*>& units) {
  if (!job.model_options->path) return std::make_unique<nn::InitSource>(static_cast<std::uint64_t>(job.run->seed));
  std::vector<const layout::Param*> records;
  for (const auto* unit : units) {
    for (const auto& weight : unit->weights()) {
      for (const auto& record : weight->records()) {
        if (std::find(records.begin(), records.end(), &record) == records.end()) records.push_back(&record);
      }
    }
  }
  auto source = std::make_unique<checkpoint::FolderSource>(*job.model_options->path, job.model.object->file_map());
  Diagnostics diagnostics;
  source->check(records, diagnostics);
  diagnostics.throw_if_any();
  return source;
}

}  // namespace

std::shared_ptr<comm::Group> MeshGroups::operator()(const std::vector<layout::Axis>& axes) {
  auto& group = groups_[axes];
  if (!group) {
    std::vector<std::string> names;
    for (const auto axis : axes) names.emplace_back(layout::axis_name(axis));
    const auto rank = communicator_.world().rank;
    const auto members = mesh_.ranks_along(axes, rank);
    group = communicator_.group(cat(join(names, "x"), " of ", members.front()), members, device_);
  }
  return group;
}

Session materialise(const Job& job, comm::Communicator& communicator,
                    const std::function<void(std::int64_t, std::int64_t)>& progress) {
  Session session;
  session.communicator = &communicator;
  if (job.device == "cuda") session.device = {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(job.gpu)};
  if (job.run->deterministic) at::globalContext().setDeterministicAlgorithms(true, false);
  std::vector<int> everyone(static_cast<std::size_t>(communicator.world().size));
  std::iota(everyone.begin(), everyone.end(), 0);
  session.world_host = communicator.group("world, host", everyone, c10::Device(c10::DeviceType::CPU));
  session.world_device = communicator.group("world", everyone, session.device);
  plugin::guard(job.model.name, "build", [&] { session.units = job.model.object->build(); });
  each_strategy(job, "structure", [&](strategy::Strategy& strategy) { strategy.structure(session.units); });
  auto groups = std::make_shared<MeshGroups>(communicator, job.mesh, session.device);
  const strategy::Placement placement{job.mesh, job.rank, [groups](const auto& axes) { return (*groups)(axes); }};
  for (auto& unit : session.units) {
    each_strategy(job, "placement", [&](strategy::Strategy& strategy) { strategy.place(*unit, placement); });
  }
  std::vector<nn::Unit*> units;
  for (auto& unit : session.units) units.push_back(unit.get());
  session.engine = std::make_unique<shard::Engine>(engine_options(job, session.device), units,
                                                   [&](const auto& axes) { return (*groups)(axes); });
  const auto source = make_source(job, units);
  session.engine->fill(*source, progress);
  session.runner = std::make_unique<strategy::UnitRunner>(units);
  wrap(job, session);
  return session;
}

}  // namespace capstan::setup
