#include "setup/assemble.h"

#include <capstan/base/text.h>

#include "comm/planned_group.h"
#include "setup/precision.h"
#include "shard/plan.h"

namespace capstan::setup {
std::vector<std::unique_ptr<nn::Unit>> assemble(const Job& job, const GroupAlong& group) {
  std::vector<std::unique_ptr<nn::Unit>> units;
  plugin::guard(job.model.name, "build", [&] { units = job.model.object->build(); });
  each_strategy(job, "structure", [&](strategy::Strategy& strategy) { strategy.structure(units); });
  const strategy::Placement placement{job.mesh, job.rank, group};
  for (auto& unit : units) {
    each_strategy(job, "placement of unit " + unit->name(),
                  [&](strategy::Strategy& strategy) { strategy.place(*unit, placement); });
  }
  return units;
}

std::vector<nn::Unit*> pointers(const std::vector<std::unique_ptr<nn::Unit>>& units) {
  std::vector<nn::Unit*> list;
  for (const auto& unit : units) list.push_back(unit.get());
  return list;
}

std::vector<layout::Axis> common_local_axes(const std::vector<std::unique_ptr<nn::Unit>>& units) {
  const layout::Param* first = nullptr;
  for (const auto& unit : units) {
    for (const auto& weight : unit->weights()) {
      for (const auto& record : weight->records()) {
        if (!record.trainable) continue;
        if (!first) first = &record;
        if (record.local_axes == first->local_axes) continue;
        throw Error(cat("gradients of ", first->name, " and ", record.name, " are local on different axes"),
                    "a strategy that keeps gradients local marks all trainable records alike, in place()");
      }
    }
  }
  return first ? first->local_axes : std::vector<layout::Axis>{};
}

shard::EngineOptions engine_options(const Job& job, c10::Device device) {
  shard::EngineOptions options;
  options.mesh = job.mesh;
  options.rank = job.rank;
  options.precision = precision_of(job.train->precision, device);
  options.policy = job.policy;
  if (job.policy.param_dtype) options.precision.compute = *job.policy.param_dtype;
  if (job.policy.reduce_dtype) options.precision.reduce = *job.policy.reduce_dtype;
  options.accumulation = job.batch.accumulation;
  options.deterministic = job.run->deterministic;
  options.coalesce = device.is_cuda();
  const auto& reduce = job.train->reduce;
  const bool each_micro_step = reduce == "micro_step" || (reduce == "auto" && job.policy.shard_grad);
  options.reduce = each_micro_step ? shard::ReduceWhen::micro_step : shard::ReduceWhen::step;
  return options;
}

std::vector<layout::Footprint> predict(const Job& job, std::size_t states) {
  const auto device = job.device == "cuda" ? c10::Device(c10::DeviceType::CUDA, 0) : c10::Device(c10::DeviceType::CPU);
  const auto units = assemble(job, [&](const auto& axes) {
    return comm::planned_group(job.mesh.ranks_along(axes, job.rank), job.mesh.position(job.rank, axes), device);
  });
  const auto options = engine_options(job, device);
  const auto plan = shard::make_plan(pointers(units), options);
  auto footprints = shard::footprint(plan, options, states);
  auto facts = job.facts();
  facts.trainable_parameters = shard::trainable_parameters(plan);
  each_strategy(job, "footprint", [&](strategy::Strategy& strategy) {
    for (auto& part : strategy.footprint(facts)) footprints.push_back(std::move(part));
  });
  return footprints;
}

}  // namespace capstan::setup
