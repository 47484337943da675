#include "setup/assemble.h"

#include <capstan/base/text.h>

#include <capstan/nn/summary.h>

#include <algorithm>

#include "checkpoint/checkpoint.h"
#include "comm/planned_group.h"
#include "setup/dry_run.h"
#include "setup/precision.h"
#include "shard/boxes.h"
#include "shard/footprint.h"
#include "shard/plan.h"

namespace capstan::setup {
namespace {

void name_modules(const std::vector<std::unique_ptr<nn::Unit>>& units, const layout::FileMap& files) {
  for (auto* record : nn::parameters(units)) {
    const auto found = files.tensors.find(record->name);
    if (found == files.tensors.end() || !found->second.stack.empty()) continue;
    const auto name = files.published(found->second.name);
    record->module = name.substr(0, name.rfind('.'));
  }
}

// Load-balancing losses are over a whole micro-batch: what the routers of all data ranks chose is added up once.
void join_balances(const Job& job, const std::vector<std::unique_ptr<nn::Unit>>& units, const GroupAlong& group) {
  auto axes = layout::data_axes;
  for (const auto local : common_local_axes(units)) std::erase(axes, local);
  if (job.mesh.size(axes) == 1) return;
  for (const auto& unit : units) {
    unit->each<nn::LoadBalance>([&](nn::LoadBalance& balance) {
      balance.counts.fill(
          "data parallelism",
          [group = group(axes), label = cat("all-reduce of expert load, ", unit->name())](const at::Tensor& counts) {
            auto sums = counts.clone();
            group->all_reduce(sums, comm::ReduceOp::sum, label);
            return sums;
          });
    });
  }
}

// What strategies have changed: their notes, then the numbers of the whole model and of this rank.
std::string changes_text(const Job& job, const std::vector<std::unique_ptr<nn::Unit>>& units) {
  std::string text;
  each_strategy(job, "notes", [&](strategy::Strategy& strategy) {
    for (const auto& line : strategy.notes()) text += line + "\n";
  });
  const auto whole = nn::summarise(units);
  const auto held = nn::summarise(units, job.mesh, job.rank);
  const auto line = [](const std::string& of, const nn::Summary& s) {
    return cat(of, ": ", thousands(s.trainable), " trainable + ", thousands(s.parameters - s.trainable),
               " non-trainable = ", thousands(s.parameters), " parameters\n");
  };
  const bool changed = whole.parameters != nn::summarise(job.model.object->build()).parameters;
  if (changed || whole.trainable != whole.parameters) text += line("with strategies", whole);
  if (held.parameters != whole.parameters) text += line("this rank computes with", held);
  return text;
}

}  // namespace

std::vector<std::unique_ptr<nn::Unit>> build_units(const Job& job) {
  std::vector<std::unique_ptr<nn::Unit>> units;
  plugin::guard(job.model.name, "build", [&] { units = job.model.object->build(); });
  name_modules(units, job.model.object->file_map());
  each_strategy(job, "structure", [&](strategy::Strategy& strategy) { strategy.structure(units); });
  return units;
}

std::vector<std::unique_ptr<nn::Unit>> assemble(const Job& job, const GroupAlong& group) {
  auto units = build_units(job);
  const strategy::Placement placement{job.mesh, job.rank, group};
  for (auto& unit : units) {
    each_strategy(job, "placement of unit " + unit->name(),
                  [&](strategy::Strategy& strategy) { strategy.place(*unit, placement); });
    for (const auto& adapter : unit->adapters()) nn::place_like_base(adapter);
    nn::refuse_undeclared(*unit);
  }
  join_balances(job, units, group);
  if (job.purpose == Purpose::train) return units;
  for (auto* record : nn::parameters(units)) record->trainable = false;  // no gradient, no optimizer state
  return units;
}

std::vector<nn::Unit*> pointers(const std::vector<std::unique_ptr<nn::Unit>>& units) {
  std::vector<nn::Unit*> list;
  for (const auto& unit : units) list.push_back(unit.get());
  return list;
}

std::vector<const layout::Param*> records_of(const std::vector<nn::Unit*>& units) {
  const auto records = nn::parameters(units);
  return {records.begin(), records.end()};
}

std::vector<layout::Axis> common_local_axes(const std::vector<std::unique_ptr<nn::Unit>>& units) {
  const layout::Param* first = nullptr;
  for (const auto* record : nn::parameters(units)) {
    if (!record->trainable) continue;
    if (!first) first = record;
    if (record->local_axes == first->local_axes) continue;
    throw Error(cat("gradients of ", first->name, " and ", record->name, " are local on different axes"),
                "a strategy that keeps gradients local marks all trainable records alike, in place()");
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

namespace {

// Libraries' memory that ATen's allocator hands out: cuBLAS's, 32 MiB for the thread of forward and that of backward.
constexpr std::int64_t cublas_bytes = std::int64_t{64} << 20;

std::string first_sentence(const std::string& text) {
  return text.substr(0, std::min(text.find('\n'), text.find(". ")));
}

// In place of what is there in forward or backward by the owners' own account: what is there at a micro-step's peak.
void add_micro_step(const Job& job, const shard::EngineOptions& options, Prediction& prediction) {
  const auto bytes = [](std::int64_t n) { return bytes_text(static_cast<double>(n)); };
  MicroStepMemory step;
  try {
    step = dry_run(job, options);
  } catch (const std::exception& error) {
    prediction.activations_note = cat("activations cannot be predicted: ", first_sentence(error.what()));
    return;
  }
  auto& list = prediction.footprints;
  std::erase_if(list, [](const auto& part) { return part.when == "forward" || part.when == "backward"; });
  const auto when = "peak: " + step.peak;
  if (step.gathered > 0) list.push_back({"gathered units", step.gathered, job.device, when});
  list.push_back({"activations and gradients at work", step.work, job.device, when});
  list.push_back({"cuBLAS", cublas_bytes, job.device, "always"});
  prediction.activations = true;
  prediction.activations_note =
      cat("a micro-batch of ", job.batch.micro_batch, " x ", thousands(job.sample_length), " tokens keeps ",
          bytes(step.kept), " of activations between forward and backward; the peak is in ", step.peak);
}

}  // namespace

Prediction predict(const Job& job, std::size_t states) {
  const auto device = job.device == "cuda" ? c10::Device(c10::DeviceType::CUDA, 0) : c10::Device(c10::DeviceType::CPU);
  const auto units = assemble(job, [&](const auto& axes) {
    return comm::planned_group(job.mesh.ranks_along(axes, job.rank), job.mesh.position(job.rank, axes), device);
  });
  const auto options = engine_options(job, device);
  const auto plan = shard::make_plan(pointers(units), options);
  Prediction prediction;
  prediction.footprints = shard::footprint(plan, options, states);
  prediction.changes = changes_text(job, units);
  const auto& saves = *job.checkpoint;
  if (saves.saves() && saves.asynchronous) {
    prediction.footprints.push_back(
        checkpoint::Writer::footprint(shard::saved_bytes(plan, options, states, saves.save == "trainable")));
    prediction.footprints.back().device = "host";
  }
  auto facts = job.facts();
  facts.trainable_parameters = shard::trainable_parameters(plan);
  each_strategy(job, "footprint", [&](strategy::Strategy& strategy) {
    for (auto& part : strategy.footprint(facts)) prediction.footprints.push_back(std::move(part));
  });
  if (job.activations && job.device == "cuda") add_micro_step(job, options, prediction);
  return prediction;
}

}  // namespace capstan::setup
