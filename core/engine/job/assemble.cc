#include "job/assemble.h"

#include <capstan/base/text.h>
#include "plugin/guard.h"

#include <algorithm>
#include <set>
#include <utility>

#include "job/override_points.h"
#include "strategy/passed_over.h"

namespace capstan::job {
namespace {

void name_modules(const std::vector<std::unique_ptr<nn::Unit>>& units, const layout::FileMap& files) {
  for (auto* record : nn::parameters(units)) {
    const auto found = files.tensors.find(record->name);
    if (found == files.tensors.end() || !found->second.stack.empty()) continue;
    const auto name = files.published(found->second.name);
    record->module = name.substr(0, name.rfind('.'));
  }
}

// The axes on which gradients stay local; Error where trainable records disagree.
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

// Load-balancing losses are over a whole micro-batch: what the routers of all data ranks chose is added up once.
void join_balances(const layout::Mesh& mesh, const AssembledModel& model) {
  auto axes = layout::data_axes;
  for (const auto local : model.local_axes) std::erase(axes, local);
  if (mesh.size(axes) == 1) return;
  for (const auto& unit : model.units) {
    unit->each<nn::LoadBalance>([&](nn::LoadBalance& balance) {
      balance.counts.fill("data parallelism",
                          [group = (*model.groups)(axes),
                           label = cat("all-reduce of expert load, ", unit->name())](const at::Tensor& counts) {
                            auto sums = counts.clone();
                            group->all_reduce(sums, comm::ReduceOp::sum, label);
                            return sums;
                          });
    });
  }
}

// What strategies have changed: their notes, then the numbers of the whole model and of this rank.
std::string changes_text(const AssembledModel& model, const Strategies& strategies, const Topology& topology) {
  std::string text;
  each_strategy(strategies, "notes", [&](strategy::Strategy& strategy) {
    for (const auto& line : strategy.notes()) text += line + "\n";
  });
  const auto whole = nn::summarise(model.units);
  const auto held = nn::summarise(model.units, topology.mesh, topology.rank);
  const auto line = [](const std::string& of, const nn::ModelSummary& s) {
    return cat(of, ": ", thousands(s.trainable), " trainable + ", thousands(s.parameters - s.trainable),
               " non-trainable = ", thousands(s.parameters), " parameters\n");
  };
  const bool changed = whole.parameters != model.built.parameters;
  if (changed || whole.trainable != whole.parameters) text += line("with strategies", whole);
  if (held.parameters != whole.parameters) text += line("this rank computes with", held);
  return text;
}

// Far above anything that trains, and far below what 64 bits of bytes overflow at.
void refuse_too_large(const std::vector<std::unique_ptr<nn::Unit>>& units) {
  constexpr double most = 1e15;
  double elements = 0;
  for (const auto* record : nn::parameters(units)) {
    double size = 1;
    for (const auto dimension : record->shape) size *= static_cast<double>(dimension);
    if (elements += size; elements > most) {
      throw Error(cat("the model has more than ", thousands(static_cast<std::int64_t>(most)),
                      " parameters: ", record->name, " alone is ", layout::shape_text(record->shape)),
                  "give it smaller sizes in [model], or correct its config.json");
    }
  }
}

// Asks the strategy that shares columns of rows among ranks, once the units are placed.
nn::SequenceCut cut_sequence(const Strategies& strategies, const strategy::Placement& placement) {
  const auto ranks = placement.mesh.size(layout::Axis::cp);
  if (ranks == 1) return {};
  for (const auto& made : strategies) {
    if (!claims(*made.object, strategy::sequence_cut_point)) continue;
    auto cut = plugin::guard(made.name, "cut_sequence", [&] { return made.object->cut_sequence(placement); });
    if (!cut.own || !cut.sum) claims_in_vain(made, strategy::sequence_cut_point, "cut_sequence");
    return cut;
  }
  throw Error(cat("the mesh has cp = ", ranks, ", but no strategy shares a sample's tokens among these ranks"),
              cat("the strategy that asks for cp claims \"", strategy::sequence_cut_point, "\""));
}

}  // namespace

BuiltModel build_model(const Made<nn::Model>& plugin) {
  BuiltModel built;
  plugin::guard(plugin.name, "build", [&] { built.units = plugin.object->build(); });
  name_modules(built.units, plugin.object->file_map());
  for (const auto& unit : built.units)
    built.own.insert(built.own.end(), unit->weights().begin(), unit->weights().end());
  refuse_too_large(built.units);
  built.built = nn::summarise(built.units);
  return built;
}

void structure(BuiltModel& model, const Strategies& strategies) {
  each_strategy(strategies, "structure", [&](strategy::Strategy& strategy) { strategy.structure(model.units); });
}

void place(AssembledModel& model, const Strategies& strategies, const Topology& topology) {
  const strategy::Placement placement{topology.mesh, topology.rank,
                                      [groups = model.groups](const auto& axes) { return (*groups)(axes); },
                                      topology.takes_mean_load};
  for (const auto& unit : model.units) {
    each_strategy(strategies, "placement of unit " + unit->name(),
                  [&](strategy::Strategy& strategy) { strategy.place(*unit, placement); });
    for (const auto& adapter : unit->adapters()) nn::place_like_base(adapter);
    nn::refuse_undeclared(*unit);
    strategy::refuse_unasked(*unit, topology.mesh);
  }
  model.sequence_cut = cut_sequence(strategies, placement);
}

std::shared_ptr<const AssembledModel> assemble(const setup::Configuration& config, const Plugins& plugins,
                                               const Strategies& strategies, const Topology& topology, BuiltModel built,
                                               c10::Device device) {
  structure(built, strategies);
  auto model = std::make_shared<AssembledModel>();
  static_cast<BuiltModel&>(*model) = std::move(built);
  model->groups = std::make_shared<strategy::MeshGroups>(topology.mesh, topology.rank, device);
  const auto records = records_of(pointers(model->units));
  // What a model itself never trains is in each checkpoint.
  model->has_frozen = std::any_of(records.begin(), records.end(),
                                  [](const auto* r) { return !r->trainable && r->usage != layout::Usage::buffer; });
  for (auto* record : nn::parameters(model->units)) record->trainable &= config.trains();  // evaluations train nothing
  place(*model, strategies, topology);
  cut_into_stages(*model, strategies, topology);
  if (config.trains()) model->local_axes = common_local_axes(model->units);
  join_balances(topology.mesh, *model);
  model->optimizer = make_optimizer(*config.optimizer, plugins, records);
  model->overridden_sums = overridden_sums(strategies);
  model->changes = changes_text(*model, strategies, topology);
  return model;
}

std::vector<nn::Unit*> pointers(const std::vector<std::unique_ptr<nn::Unit>>& units) {
  std::vector<nn::Unit*> list;
  for (const auto& unit : units) list.push_back(unit.get());
  return list;
}

std::vector<const layout::Param*> records_of(const std::vector<nn::WeightPtr>& weights) {
  std::vector<const layout::Param*> records;
  std::set<const layout::Param*> seen;
  for (const auto& weight : weights) {
    for (const auto& record : weight->records()) {
      if (seen.insert(&record).second) records.push_back(&record);
    }
  }
  return records;
}

std::vector<const layout::Param*> records_of(const std::vector<nn::Unit*>& units) {
  const auto records = nn::parameters(units);
  return {records.begin(), records.end()};
}

c10::Device device_of(const setup::Configuration& config) {
  if (config.device != "cuda") return c10::Device(c10::DeviceType::CPU);
  return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(config.request.gpu)};
}

shard::EngineOptions engine_options(const setup::Configuration& config, const Topology& topology,
                                    const Samples& samples, const AssembledModel& model, c10::Device device) {
  const auto& policy = topology.policy;
  shard::EngineOptions options;
  options.mesh = topology.mesh;
  options.rank = topology.rank;
  options.precision = precision_of(config.train->precision, device);
  options.policy = policy;
  if (policy.param_dtype) options.precision.compute = *policy.param_dtype;
  if (policy.reduce_dtype) options.precision.reduce = *policy.reduce_dtype;
  options.accumulation = topology.batch.accumulation;
  options.gathers_once = topology.gathers_once;
  options.micro_tokens = topology.batch.rows() * samples.longest_row;
  options.deterministic = config.run->deterministic;
  options.coalesce = device.is_cuda();
  if (const auto own = model.stages_at(topology.position()); !own.is_whole()) {
    options.stages = own;
    const auto program =
        config.trains() ? model.program(static_cast<int>(options.accumulation), own.position) : strategy::Program();
    for (const auto& action : program) {
      const bool completes = strategy::completes_gradients(action.kind);
      if (completes || strategy::makes_gradients(action.kind))
        options.backwards.push_back({own.index_of(action.stage), completes});
    }
  }
  options.optimizer = model.optimizer;
  for (const auto axis : model.overridden_sums) options.reduce_overrides[axis];
  const auto& reduce = config.train->reduce;
  const bool saves_memory = policy.shard_grad && !topology.gathers_once;
  const bool each_micro_step = reduce == "auto" ? saves_memory : reduce == "micro_step";
  options.reduce = each_micro_step ? shard::ReduceWhen::micro_step : shard::ReduceWhen::step;
  return options;
}

std::string settled_save(const setup::Configuration& config, const Plugins& plugins, const AssembledModel& model) {
  const auto& options = config.checkpoint;
  const bool comes_again = (plugins.model_options->path || plugins.stand_in) && model.has_frozen;
  return comes_again && !options.is_set(&setup::CheckpointOptions::save) ? "trainable" : options->save;
}

shard::Precision precision_of(const std::string& name, c10::Device device) {
  shard::Precision precision;
  precision.device = device;
  if (name == "bf16") precision.compute = at::kBFloat16;
  if (name == "fp16") precision.compute = at::kHalf;
  if (name == "bf16_pure") precision.compute = precision.master = precision.reduce = at::kBFloat16;
  if (name == "fp64") precision.compute = precision.master = precision.reduce = at::kDouble;
  return precision;
}

}  // namespace capstan::job
