// What is trained as it is, next to adapters: whole modules, and biases.
#include <capstan/base/text.h>

#include <algorithm>

#include "lora.h"

namespace lora {

using namespace capstan;

namespace {

void train(const nn::WeightPtr& weight) {
  if (!weight) return;
  for (auto& record : weight->records()) record.trainable = record.usage != layout::Usage::buffer;
}

// Modules whose records are one weight, by whether they are asked for: "q_proj", then "k_proj" and "v_proj".
struct Parted {
  std::vector<std::string> asked;
  std::vector<std::string> rest;

  void add(bool is_asked, const std::string& module) {
    auto& list = is_asked ? asked : rest;
    const auto name = leaf(module);
    if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
  }
  bool is_partial() const { return !asked.empty() && !rest.empty(); }
  /// "q_proj", "k_proj", "v_proj"
  std::string all() const {
    std::vector<std::string> quoted;
    for (const auto* list : {&asked, &rest}) {
      for (const auto& name : *list) quoted.push_back(cat('"', name, '"'));
    }
    return join(quoted);
  }
};

// Every block has the same fault: it is said once.
void add_once(Diagnostics& faults, const std::string& where, const std::string& what, const std::string& fix) {
  const auto& list = faults.list();
  if (std::none_of(list.begin(), list.end(), [&](const auto& fault) { return fault.what == what; }))
    faults.add(where, what, fix);
}

}  // namespace

void Lora::train_biases(const nn::Unit& unit, Diagnostics& faults) {
  if (options_->bias == "all") {
    for (const auto& weight : unit.weights()) {
      const auto& name = weight->records().front().name;
      if (name.ends_with(".bias") || name.ends_with("_proj_bias")) train(weight);
    }
  }
  if (options_->bias != "lora_only") return;
  unit.each<nn::Linear>([&](const nn::Linear& linear) {
    if (linear.bias() && of_linear_.count(&linear) > 0) train_bias(unit, linear, faults);
  });
}

void Lora::train_bias(const nn::Unit& unit, const nn::Linear& linear, Diagnostics& faults) {
  const auto& records = linear.weight()->records();
  std::vector<bool> adapted(records.size());
  for (const auto index : of_linear_.at(&linear)) {
    for (const auto part : unit.adapters()[index].parts) adapted[part] = true;
  }
  Parted modules;
  for (std::size_t i = 0; i < records.size(); ++i) modules.add(adapted[i], records[i].module);
  if (modules.is_partial()) {
    add_once(
        faults, options_.where(&LoraOptions::bias),
        cat(options_.name(&LoraOptions::bias), " is \"lora_only\", and of ", modules.all(),
            ", whose biases are stored and trained together, only ", join(modules.asked, " and "), " has adapters"),
        cat("name all of them in ", options_.name(&LoraOptions::targets), ", or the role \"", linear.name(),
            R"(", or set bias = "none" or "all")"));
  }
  train(linear.bias());
}

// By the roles of layers, then by the modules that records belong to.
void Lora::train_whole(const nn::Unit& unit, Diagnostics& faults) {
  unit.each<nn::Linear>([&](const nn::Linear& linear) {
    if (!whole_.take(linear.name())) return;
    train(linear.weight());
    train(linear.bias());
  });
  unit.each<nn::Experts>([&](const nn::Experts& experts) {
    const bool all = whole_.take("experts");
    if (whole_.take("linear_fc1") || all) train(experts.gate_up());
    if (whole_.take("linear_fc2") || all) train(experts.down());
  });
  for (const auto& weight : unit.weights()) {
    Parted modules;
    for (const auto& record : weight->records()) modules.add(whole_.take_module(record.module), record.module);
    if (modules.asked.empty()) continue;
    if (modules.is_partial() && !weight->trainable()) {
      add_once(faults, options_.where(&LoraOptions::modules_to_save),
               cat(options_.name(&LoraOptions::modules_to_save), " names ", join(modules.asked, " and "),
                   ", stored and trained together with ", join(modules.rest, " and ")),
               cat("name all of them: ", modules.all()));
    }
    train(weight);
  }
}

}  // namespace lora
