#include "peft.h"

#include <capstan/base/text.h>
#include <capstan/nn/codec.h>

#include <algorithm>
#include <map>
#include <set>

namespace lora {

using namespace capstan;

namespace {

std::string leaf_of(const std::string& tensor) { return tensor.substr(tensor.rfind('.') + 1); }

// As peft finds them: "bias", and experts' "down_proj_bias".
bool is_bias(const std::string& tensor) { return tensor.ends_with(".bias") || tensor.ends_with("_proj_bias"); }

// The tensors of a module of the model's files, and which of them were trained.
struct Module {
  std::vector<std::string> tensors;
  std::vector<std::string> trained;
  bool is_whole() const { return trained.size() == tensors.size(); }
  bool has_trained_weight() const {
    return std::any_of(trained.begin(), trained.end(), [](const auto& name) { return !is_bias(name); });
  }
};

// Modules by transformers' names. A fused tensor holds several records of one module.
std::map<std::string, Module> modules_of(const PeftContents& contents, const layout::FileMap& files) {
  std::set<std::string> trained;
  for (const auto* record : contents.trained) trained.insert(record->name);
  std::map<std::string, Module> modules;
  for (const auto& [record, tensor] : files.tensors) {
    for (const auto& name : names_in(tensor)) {
      auto& module = modules[module_of(files, name)];
      const auto is_new = [&](const auto& list) { return std::find(list.begin(), list.end(), name) == list.end(); };
      if (is_new(module.tensors)) module.tensors.push_back(name);
      if (trained.contains(record) && is_new(module.trained)) module.trained.push_back(name);
    }
  }
  return modules;
}

// peft's word for the biases that were trained outside of whole modules.
const char* bias_of(const std::map<std::string, Module>& modules) {
  bool any = false;
  bool all = true;
  for (const auto& [name, module] : modules) {
    if (module.has_trained_weight()) continue;
    any = any || !module.trained.empty();
    for (const auto& tensor : module.tensors) {
      const bool is_trained = std::find(module.trained.begin(), module.trained.end(), tensor) != module.trained.end();
      all = all && (is_trained || !is_bias(tensor));
    }
  }
  if (!any) return "none";
  return all ? "all" : "lora_only";
}

// The module of `listed` that `name` is in; none: null. A module that peft saves has all that is in it.
const std::string* around(const std::string& name, const std::vector<std::string>& listed) {
  const auto found = std::find_if(listed.begin(), listed.end(),
                                  [&](const std::string& outer) { return name.starts_with(outer + "."); });
  return found == listed.end() ? nullptr : &*found;
}

// Why peft's files cannot have these modules; empty: they can. An outer module comes before what is in it.
std::string not_whole(const std::map<std::string, Module>& modules, const std::set<std::string>& adapted) {
  std::vector<std::string> listed;
  for (const auto& [name, module] : modules) {
    const auto* outer = around(name, listed);
    if (!outer && !module.has_trained_weight()) continue;
    if (adapted.contains(name)) {
      const auto what = outer ? cat(*outer, " was trained whole and ", name, " in it has an adapter")
                              : cat(name, " was trained whole and has an adapter");
      return cat(what, ", but peft knows only one of these");
    }
    if (!module.is_whole()) return cat(outer ? *outer : name, " was trained in part, which peft does not know");
    if (!outer) listed.push_back(name);
  }
  return {};
}

// peft saves a module that was trained whole with what of it is never trained, such as a router's correction.
void add_buffers(const std::vector<const layout::Param*>& buffers, PeftContents& contents) {
  std::set<std::string> modules;
  for (const auto* record : contents.trained) {
    if (!is_bias(record->name)) modules.insert(record->module);
  }
  for (const auto* record : buffers) {
    if (!record->module.empty() && modules.contains(record->module)) contents.trained.push_back(record);
  }
}

bool is_packed(const nn::Weight& weight) { return weight.codec() && weight.codec()->capabilities().packs; }

// What of a weight of the model is trained whole, and which buffers it has. `again`: another unit's weight is the same.
void add_weight(const nn::Weight& weight, bool again, const Adapted& adapted,
                std::vector<const layout::Param*>& buffers, PeftContents& contents) {
  for (const auto& record : weight.records()) {
    const bool is_trained = adapted.trained.contains(record.name);
    if (again) contents.tied.push_back(&record);
    if (is_trained && !again) contents.trained.push_back(&record);
    if (is_trained && is_packed(weight)) contents.coded.push_back(&record);
    if (record.usage == layout::Usage::buffer && !again) buffers.push_back(&record);
  }
}

}  // namespace

std::vector<std::string> names_in(const layout::FileTensor& tensor) {
  return tensor.stack.empty() ? std::vector<std::string>{tensor.name} : tensor.stack;
}

layout::FileMap by_parameters(layout::FileMap files) {
  for (auto& [record, tensor] : files.tensors) {
    if (!tensor.parameter.empty()) tensor.name = tensor.parameter;
  }
  return files;
}

std::string module_of(const layout::FileMap& files, const std::string& tensor) {
  const auto name = files.published(tensor);
  return name.substr(0, name.rfind('.'));
}

std::vector<std::string> adapted_modules(const std::vector<PeftTensor>& tensors) {
  std::set<std::string> modules;
  for (const auto& tensor : tensors) {
    if (tensor.parameter.empty())
      modules.insert(tensor.key.substr(peft_prefix.size(), tensor.key.rfind(".lora_") - peft_prefix.size()));
  }
  return {modules.begin(), modules.end()};
}

std::vector<std::string> adapted_parameters(const std::vector<PeftTensor>& tensors) {
  std::set<std::string> parameters;
  for (const auto& tensor : tensors) {
    if (!tensor.parameter.empty()) parameters.insert(tensor.parameter);
  }
  return {parameters.begin(), parameters.end()};
}

PeftWhole peft_whole(const PeftContents& contents, const layout::FileMap& files) {
  const auto tensors = peft_tensors(contents.adapters, files);
  const auto adapted = adapted_modules(tensors), parameters = adapted_parameters(tensors);
  const auto modules = modules_of(contents, files);
  PeftWhole whole;
  for (const auto& [name, module] : modules) {
    if (module.has_trained_weight() && !around(name, whole.modules_to_save)) whole.modules_to_save.push_back(name);
  }
  for (const auto* record : contents.tied) {
    if (std::find(contents.trained.begin(), contents.trained.end(), record) == contents.trained.end()) continue;
    whole.tied.push_back(record);
    whole.modules_to_save.emplace_back(tied_head);
  }
  whole.bias = bias_of(modules);
  const auto key = [&](const std::string& tensor) {
    const auto module = module_of(files, tensor);
    std::int64_t around = std::binary_search(adapted.begin(), adapted.end(), module) ? 1 : 0;
    for (const auto& parameter : parameters) around += parameter.substr(0, parameter.rfind('.')) == module ? 1 : 0;
    std::string wrapped;
    while (around-- > 0) wrapped += ".base_layer";
    return cat(peft_prefix, module, wrapped, ".", leaf_of(tensor));
  };
  for (const auto* record : contents.trained) {
    auto tensor = files.tensors.at(record->name);
    tensor.name = tensor.stack.empty() ? key(tensor.name) : std::string();
    for (auto& name : tensor.stack) name = key(name);
    whole.map.tensors.emplace(record->name, std::move(tensor));
  }
  return whole;
}

PeftContents peft_contents(const Adapted& adapted) {
  PeftContents contents;
  std::set<const nn::Weight*> of_adapters;
  for (const auto* unit : adapted.units) {
    for (const auto& adapter : unit->adapters()) {
      contents.adapters.push_back(&adapter);
      of_adapters.insert({adapter.down.get(), adapter.up.get()});
    }
  }
  std::set<const nn::Weight*> seen;
  std::vector<const layout::Param*> buffers;
  for (const auto* unit : adapted.units) {
    for (const auto& weight : unit->weights()) {
      const bool again = !seen.insert(weight.get()).second;
      if (!of_adapters.contains(weight.get())) add_weight(*weight, again, adapted, buffers, contents);
    }
  }
  add_buffers(buffers, contents);
  return contents;
}

std::string not_peft(const PeftContents& contents, const layout::FileMap& files) {
  if (contents.adapters.empty()) return "the run has no adapters";
  for (const auto* record : contents.trained) {
    if (!files.tensors.contains(record->name)) return cat(record->name, " has no place in the model's files");
  }
  for (const auto* adapter : contents.adapters) {
    const auto& name = adapter->base->records()[adapter->parts.front()].name;
    if (!files.tensors.contains(name)) return cat(name, " has no place in the model's files");
  }
  const auto tensors = peft_tensors(contents.adapters, files);
  const auto modules = adapted_modules(tensors);
  std::set<std::string> adapted(modules.begin(), modules.end());
  for (const auto& parameter : adapted_parameters(tensors)) adapted.insert(parameter.substr(0, parameter.rfind('.')));
  const auto why = not_whole(modules_of(contents, files), adapted);
  return why.empty() ? why : cat(why, ": export it merged, --to hf --merge");
}

}  // namespace lora
