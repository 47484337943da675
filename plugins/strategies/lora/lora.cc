// Low-rank adapters next to frozen matrices (Hu et al. 2021, "LoRA"; Kalajdzievski 2023 for the rank-stabilised scale).
#include "lora.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "forward.h"

namespace lora {

using namespace capstan;

namespace {

constexpr const char* everything = "all-linear";

std::string without(const std::string& name, const std::string& end) {
  return name.ends_with(end) ? name.substr(0, name.size() - end.size()) : name;
}

// "model.layers.0.self_attn" of "model.layers.0.self_attn.q_proj.weight".
std::string parent_module(const std::string& record) {
  const auto module = without(record, ".weight");
  return module.substr(0, module.rfind('.'));
}

layout::Init even_within_root(std::int64_t inputs) {
  // Even in ±1/√n has the standard deviation 1/√(3n): PyTorch's kaiming_uniform_ with a = √5, as PEFT draws A.
  return layout::Init::uniform(1 / std::sqrt(3.0 * static_cast<double>(inputs)));
}

}  // namespace

void LoraOptions::describe(config::OptionTable<LoraOptions>& t) {
  t.add("rank", &LoraOptions::rank).min(1).max(65536).spelling("r").spelling("dim").doc("rank of each adapter");
  t.add("alpha", &LoraOptions::alpha)
      .above(0)
      .spelling("lora_alpha")
      .doc("what an adapter adds is multiplied by alpha / rank; by default alpha is the rank");
  t.add("dropout", &LoraOptions::dropout)
      .min(0)
      .max(0.99)
      .spelling("lora_dropout")
      .doc("dropout on what goes into an adapter");
  t.add("targets", &LoraOptions::targets)
      .spelling("target_modules")
      .doc(
          "layers that get adapters, by NeMo's roles (linear_qkv: one adapter for q, k and v; linear_proj; linear_fc1; "
          "linear_fc2; experts: each expert its own) or by Hugging Face's module names (q_proj: an adapter of its own; "
          "the end of a name is enough), or \"all-linear\": every module of a block, routers and experts too");
  t.add("init", &LoraOptions::init)
      .choices({"kaiming", "random"})
      .spelling("init_lora_weights")
      .doc(
          "kaiming: A evenly drawn within 1 / sqrt(inputs), B zeros, so that training starts from the base model; "
          "random: B drawn as well, for tests");
  t.add("rank_stabilised", &LoraOptions::rank_stabilised)
      .spelling("use_rslora")
      .doc("multiply by alpha / sqrt(rank) instead");
  t.add("bias", &LoraOptions::bias)
      .choices({"none", "all", "lora_only"})
      .doc("which of the model's biases are trained too: none, all, or those of layers with adapters");
  t.add("modules_to_save", &LoraOptions::modules_to_save)
      .doc("modules, or layers by their role, that are trained whole next to the adapters, such as [\"lm_head\"]");
  t.add("adapter", &LoraOptions::adapter)
      .path()
      .doc("folder of a PEFT adapter (adapter_model.safetensors) to start from");
}

void Lora::claim(strategy::Claims& claims) const { claims.exclusive("which parameters are trained"); }

void Lora::structure(std::vector<std::unique_ptr<nn::Unit>>& units) {
  targets_ = Names(options_->targets);
  whole_ = Names(options_->modules_to_save);
  of_linear_.clear();
  of_experts_.clear();
  notes_ = nn::notes_on_other_kinds(units, "lora");
  adapted_ = {};
  for (auto* record : nn::parameters(units)) record->trainable = false;
  Diagnostics faults;
  for (auto& unit : units) {
    adapt_linears(*unit);
    adapt_experts(*unit);
    adapted_.units.push_back(unit.get());
  }
  for (auto& unit : units) {
    train_biases(*unit, faults);
    train_whole(*unit, faults);
  }
  for (const auto* record : nn::parameters(units)) {
    if (record->trainable) adapted_.trained.insert(record->name);
  }
  refuse_unused(units, faults);
  if (faults.empty()) refuse_nothing_trained(units, faults);
  faults.throw_if_any();
}

namespace {

/// The records of a layer's weight that belong to one module.
struct ModuleParts {
  std::string module;
  std::vector<std::size_t> parts;
};

// In the order of their first record.
std::vector<ModuleParts> by_module(const std::vector<layout::Param>& records) {
  std::vector<ModuleParts> list;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto& module = records[i].module;
    if (module.empty()) continue;
    auto found = std::find_if(list.begin(), list.end(), [&](const auto& one) { return one.module == module; });
    if (found == list.end()) found = list.insert(found, {module, {}});
    found->parts.push_back(i);
  }
  return list;
}

}  // namespace

// Which records of the layer's weight get an adapter together.
std::vector<std::vector<std::size_t>> Lora::chosen_parts(const nn::Linear& linear) {
  const auto& records = linear.weight()->records();
  std::vector<std::vector<std::size_t>> chosen;
  if (targets_.take(linear.name())) {
    chosen.emplace_back(records.size());
    std::iota(chosen.back().begin(), chosen.back().end(), 0);
  }
  for (auto& [module, parts] : by_module(records)) {
    const bool is_named = targets_.take_module(module);
    const bool is_role = !chosen.empty() && records.size() == 1 && leaf(module) == linear.name();  // "router"
    if (targets_.take(everything) || (is_named && !is_role)) chosen.push_back(std::move(parts));
  }
  std::set<std::size_t> once;
  for (const auto& parts : chosen) {
    for (const auto part : parts) {
      if (once.insert(part).second) continue;
      throw Error(cat(options_.name(&LoraOptions::targets), " names ", records[part].name, " twice: as part of ",
                      linear.name(), " and by its own module"),
                  "name the role or the modules, not both", options_.where(&LoraOptions::targets));
    }
  }
  return chosen;
}

nn::Adapter Lora::make_adapter(const std::string& layer, const nn::WeightPtr& base, std::vector<std::size_t> parts,
                               std::size_t stacked) const {
  nn::Adapter adapter;
  adapter.table = "strategy.lora";
  adapter.base = base;
  adapter.stacked = stacked;
  adapter.rank = options_->rank;
  adapter.alpha = options_->alpha_value();
  adapter.rank_stabilised = options_->rank_stabilised;
  adapter.dropout = options_->dropout;
  const auto& first = base->records()[parts.front()];
  const auto inputs = first.shape.back();
  adapter.module =
      parts.size() == 1 ? without(first.name, ".weight") : cat(parent_module(first.name), ".", leaf(layer));
  layout::Shape down(first.shape.begin(), first.shape.begin() + static_cast<std::ptrdiff_t>(stacked));
  down.insert(down.end(), {options_->rank, inputs});
  adapter.down = std::make_shared<nn::Weight>(std::vector<layout::Param>{
      nn::record(adapter.module + ".lora_A.weight", down, even_within_root(inputs), /*decay=*/true)});
  std::vector<layout::Param> up;
  for (const auto part : parts) {
    const auto& record = base->records()[part];
    auto shape = record.shape;
    shape.back() = options_->rank;
    const auto init = options_->init == "random" ? even_within_root(options_->rank) : layout::Init::zeros();
    up.push_back(nn::record(without(record.name, ".weight") + ".lora_B.weight", shape, init, /*decay=*/true));
  }
  adapter.up = std::make_shared<nn::Weight>(std::move(up));
  for (const auto& weight : {adapter.down, adapter.up}) {
    for (auto& record : weight->records()) record.usage = layout::Usage::adapter;
  }
  adapter.parts = std::move(parts);
  return adapter;
}

const nn::Adapter* Lora::add(nn::Unit& unit, nn::Adapter adapter) {
  for (const auto part : adapter.parts) {
    if (adapter.base->records()[part].shape.size() >= adapter.stacked + 2) continue;
    throw Error(cat(adapter.module, " is no matrix"), "choose other targets", options_.where(&LoraOptions::targets));
  }
  notes_.push_back("Adding lora to: " + adapter.module);
  unit.adapt(std::move(adapter));
  return &unit.adapters().back();
}

void Lora::adapt_linears(nn::Unit& unit) {
  unit.each<nn::Linear>([&](nn::Linear& linear) {
    for (auto& parts : chosen_parts(linear)) {
      of_linear_[&linear].push_back(unit.adapters().size());
      const auto module = linear.weight()->records()[parts.front()].module;
      const bool is_role =
          parts.size() > 1 && parts.size() == linear.weight()->records().size() &&
          std::find(options_->targets.begin(), options_->targets.end(), linear.name()) != options_->targets.end();
      add(unit, make_adapter(is_role ? linear.name() : module, linear.weight(), std::move(parts), 0));
    }
  });
}

void Lora::adapt_experts(nn::Unit& unit) {
  constexpr auto none = static_cast<std::size_t>(-1);
  unit.each<nn::Experts>([&](nn::Experts& experts) {
    const bool is_named = targets_.take("experts");
    const bool all = targets_.take(everything) || is_named;
    auto& at = of_experts_[&experts] = {none, none};
    if (targets_.take("linear_fc1") || all) {
      at.first = unit.adapters().size();
      add(unit, make_adapter("gate_up", experts.gate_up(), {0}, 1));
    }
    if (targets_.take("linear_fc2") || all) {
      at.second = unit.adapters().size();
      add(unit, make_adapter("down", experts.down(), {0}, 1));
    }
    if (at == std::pair{none, none}) of_experts_.erase(&experts);
  });
}

void Lora::refuse_unused(const Units& units, Diagnostics& faults) const {
  const Known known(units);
  const auto targets = options_.name(&LoraOptions::targets), whole = options_.name(&LoraOptions::modules_to_save);
  for (const auto& name : targets_.unused()) {
    auto [why, fix] = refuse_target(name, known, whole);
    if (!options_.is_set(&LoraOptions::targets))
      fix = cat("set ", targets, R"( = ["all-linear"], or name some of these)");
    faults.add(options_.where(&LoraOptions::targets), cat(targets, " names \"", name, "\", ", why), fix);
  }
  for (const auto& name : whole_.unused()) {
    const auto [why, fix] = refuse_whole(name, known);
    faults.add(options_.where(&LoraOptions::modules_to_save), cat(whole, " names \"", name, "\", ", why), fix);
  }
}

void Lora::refuse_nothing_trained(const Units& units, Diagnostics& faults) const {
  if (std::any_of(units.begin(), units.end(), [](const auto& unit) { return unit->trainable(); })) return;
  faults.add(options_.where(&LoraOptions::targets),
             cat(options_.name(&LoraOptions::targets), " is empty, so that nothing would be trained"),
             R"(name layers, such as ["linear_qkv", "linear_proj"], or what modules_to_save is to train whole)");
}

void Lora::place(nn::Unit& unit, const strategy::Placement& placement) {
  unit.each<nn::Linear>([&](nn::Linear& linear) {
    const auto found = of_linear_.find(&linear);
    if (found == of_linear_.end()) return;
    std::vector<Beside> all;
    for (const auto index : found->second) {
      all.push_back({&unit, index, placement.mesh, placement.rank});
      all.back().router = dynamic_cast<const nn::Router*>(linear.parent());
    }
    linear.adapter.must_act();
    linear.adapter.fill("lora", [all](const at::Tensor& x, const at::Tensor& y) {
      return all.front().acts() ? Beside::add_to(all, y, x) : y;  // a unit's adapters act together
    });
  });
  unit.each<nn::Experts>([&](nn::Experts& experts) { place_beside(experts, unit, placement); });
}

void Lora::place_beside(nn::Experts& experts, nn::Unit& unit, const strategy::Placement& placement) const {
  const auto found = of_experts_.find(&experts);
  if (found == of_experts_.end()) return;
  const auto at = [&](std::size_t index) { return Beside{&unit, index, placement.mesh, placement.rank}; };
  const auto fill = [&](nn::Experts::AdapterPort& port, std::size_t index) {
    if (index == static_cast<std::size_t>(-1)) return;
    port.must_act();
    port.fill("lora", [one = at(index)](const auto& rows, const auto& y, const auto& ends, const auto& ids) {
      return one.acts() ? one.add_to_grouped(y, rows, ends, ids) : y;
    });
  };
  const auto [first, second] = found->second;
  fill(experts.gate_up_adapter, first);
  fill(experts.down_adapter, second);
  if (options_->dropout > 0)
    experts.token_ids.fill("lora", [one = at(std::min(first, second))] { return one.of_tokens(); });
}

std::shared_ptr<layout::Source> Lora::values(const layout::FileMap& files) {
  if (!options_->adapter) return nullptr;
  const auto contents = peft_contents(adapted_);
  if (!contents.coded.empty()) {
    throw Error(cat(options_.name(&LoraOptions::adapter), " brings values of ", contents.coded.front()->name,
                    ", which another strategy holds in another form (nf4)"),
                "leave its layer out of that strategy's targets", options_.where(&LoraOptions::adapter));
  }
  try {
    return std::make_shared<PeftSource>(*options_->adapter, contents, by_parameters(files));
  } catch (const Error& error) {
    auto faults = error.diagnostics();
    for (auto& fault : faults) {
      fault.what = cat(options_.name(&LoraOptions::adapter), ": ", fault.where, ": ", fault.what);
      fault.where = options_.where(&LoraOptions::adapter);
    }
    throw Error(std::move(faults));
  }
}

std::vector<std::shared_ptr<const strategy::Exporter>> Lora::exporters() const {
  return {std::make_shared<const PeftExporter>(adapted_)};
}

}  // namespace lora

CAPSTAN_STRATEGY("lora", "0.1.0", "trains low-rank adapters next to a frozen model", lora::Lora, lora::LoraOptions)
