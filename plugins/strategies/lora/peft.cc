#include "peft.h"

#include <ATen/ATen.h>
#include <capstan/base/json.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <set>

namespace lora {

using namespace capstan;

namespace {

using layout::Box;

std::string key_of(const std::string& module, const char* matrix) {
  return cat(peft_prefix, module, ".", matrix, ".weight");
}

std::string module_of_key(const std::string& name) { return name.substr(0, name.rfind('.')); }

const layout::FileTensor& file_tensor(const layout::FileMap& files, const layout::Param& record) {
  const auto found = files.tensors.find(record.name);
  if (found == files.tensors.end()) {
    throw Error(cat("the model does not say where ", record.name, " stands in its files"),
                "PEFT's names of its adapter cannot be told");
  }
  return found->second;
}

PeftTensor whole(std::string key, const layout::Param& record) {
  const auto columns = record.shape.back();
  return {std::move(key), {layout::numel(record.shape) / columns, columns}, {{&record, Box::whole(record.shape), 0}}};
}

// Modules in the order of their first record; a module of several records has their rows concatenated.
void add_plain(const nn::Adapter& adapter, const layout::FileMap& files, std::vector<PeftTensor>& out) {
  const auto& down = adapter.down->records().front();
  std::vector<std::string> modules;
  for (std::size_t i = 0; i < adapter.parts.size(); ++i) {
    const auto& at = file_tensor(files, adapter.base->records()[adapter.parts[i]]);
    const auto module = module_of(files, at.name);
    auto up = whole(key_of(module, "lora_B"), adapter.up->records()[i]);
    if (at.part) {
      up.parts.front().first_row = at.part->offset;
      up.shape.front() = at.part->whole;
    }
    if (std::find(modules.begin(), modules.end(), module) == modules.end()) {
      modules.push_back(module);
      out.push_back(whole(key_of(module, "lora_A"), down));
      out.push_back(std::move(up));
    } else {
      const auto same = [&](const PeftTensor& tensor) { return tensor.key == up.key; };
      std::find_if(out.begin(), out.end(), same)->parts.push_back(up.parts.front());
    }
  }
}

// The box of the matrix `index` of those that the record's first `dims` dimensions count.
Box matrix_box(const layout::Shape& shape, std::size_t dims, std::int64_t index) {
  auto box = Box::whole(shape);
  for (auto d = dims; d-- > 0;) {
    box.offset[d] = index % shape[d];
    box.size[d] = 1;
    index /= shape[d];
  }
  return box;
}

void add_stacked(const nn::Adapter& adapter, const layout::FileMap& files, std::vector<PeftTensor>& out) {
  const auto& base = adapter.base->records().front();
  const auto& down = adapter.down->records().front();
  const auto& up = adapter.up->records().front();
  const auto& at = file_tensor(files, base);
  const auto dims = at.stacked_dims(base.shape);
  std::int64_t each = 1;  // tensors of the file with one A
  for (auto d = adapter.stacked; d < dims; ++d) each *= base.shape[d];
  for (std::size_t i = 0; i < at.stack.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    const auto module = module_of(files, at.stack[i]);
    const auto add = [&](const char* matrix, const layout::Param& record, std::size_t counted, std::int64_t which) {
      const auto box = matrix_box(record.shape, counted, which);
      const auto columns = record.shape.back();
      out.push_back({key_of(module, matrix), {box.numel() / columns, columns}, {{&record, box, 0}}});
    };
    add("lora_A", down, adapter.stacked, index / each);
    add("lora_B", up, dims, index);
  }
}

// Experts that are one tensor in files, in the order of its dimensions: [experts, in, out …].
void add_parameter(const nn::Adapter& adapter, const layout::FileMap& files, std::vector<PeftTensor>& out) {
  const auto& at = file_tensor(files, adapter.base->records().front());
  const auto& down = adapter.down->records().front();
  const auto& up = adapter.up->records().front();
  const auto name = files.published(at.name);
  const auto module = module_of(files, at.name);
  // peft wraps the module once for each of its parameters, in their order.
  for (auto& tensor : out) {
    const auto end = tensor.key.rfind(".lora_");
    if (tensor.parameter.empty() || module_of_key(tensor.parameter) != module) continue;
    tensor.key.insert(end, ".base_layer");
  }
  auto of_down = whole(key_of(module, "lora_A"), down);
  PeftTensor of_up{key_of(module, "lora_B"), {}, {{&up, Box::whole(up.shape), 0}}};
  if (at.order.empty()) {
    for (std::size_t d = 1; d + 1 < up.shape.size(); ++d) of_up.order.push_back(static_cast<std::int64_t>(d));
  } else {
    of_up.order.assign(at.order.begin() + 2, at.order.end());
  }
  of_up.order.insert(of_up.order.end(), {static_cast<std::int64_t>(up.shape.size()) - 1, 0});
  const auto columns = adapter.rank * up.shape.front();
  of_up.shape = {layout::numel(up.shape) / columns, columns};
  of_down.parameter = of_up.parameter = name;
  out.push_back(std::move(of_down));
  out.push_back(std::move(of_up));
}

// A router beside such experts is no linear layer to transformers either: its matrix is a parameter.
bool is_router_of_parameters(const std::string& module, const layout::FileMap& files) {
  const auto leaf = module.substr(module.rfind('.') + 1);
  if (leaf != "router" && leaf != "gate") return false;
  const auto experts = module_of_key(module) + ".experts.";
  return std::any_of(files.tensors.begin(), files.tensors.end(), [&](const auto& entry) {
    return entry.second.stack.empty() && files.published(entry.second.name).starts_with(experts);
  });
}

// Every module with a matrix in the model's files.
std::set<std::string> modules_of(const layout::FileMap& files) {
  std::set<std::string> modules;
  for (const auto& [record, tensor] : files.tensors) {
    for (const auto& name : names_in(tensor)) {
      if (name.ends_with(".weight")) modules.insert(module_of(files, name));
    }
  }
  return modules;
}

std::set<std::string> parameters_of(const layout::FileMap& files) {
  std::set<std::string> names;
  for (const auto& [record, tensor] : files.tensors) {
    for (const auto& name : names_in(tensor)) names.insert(files.published(name));
  }
  return names;
}

// The shortest name suffixes that only adapted modules have: peft adapts every module with such a suffix. What is
// around a text model may have modules of any names: inside of it they are whole names.
std::set<std::string> targets_of(const std::set<std::string>& adapted, const std::set<std::string>& modules,
                                 bool is_inside) {
  std::set<std::string> targets;
  if (is_inside) return adapted;
  for (const auto& module : adapted) {
    auto begin = module.rfind('.');
    for (; begin != std::string::npos && begin > 0; begin = module.rfind('.', begin - 1)) {
      const auto end = module.substr(begin);
      const bool alone = std::all_of(modules.begin(), modules.end(), [&](const auto& other) {
        return !other.ends_with(end) || adapted.contains(other);
      });
      if (alone) break;
    }
    targets.insert(begin == std::string::npos ? module : module.substr(begin + 1));
  }
  return targets;
}

// A layer beside experts with their projections' names. peft with transformers 5 holds such experts fused, by these
// names, and takes what is adapted under them for the experts'; empty: there is none.
std::string taken_for_experts(const std::set<std::string>& adapted, const layout::FileMap& files) {
  std::set<std::string> of_experts;
  for (const auto& [record, tensor] : files.tensors) {
    for (const auto& name : tensor.stack) of_experts.insert(module_of(files, name));
  }
  const auto is_projection = [](const std::string& name) {
    return name.ends_with(".gate_proj") || name.ends_with(".up_proj") || name.ends_with(".down_proj");
  };
  if (std::none_of(of_experts.begin(), of_experts.end(), is_projection)) return {};
  const auto found = std::find_if(adapted.begin(), adapted.end(), [&](const std::string& module) {
    return is_projection(module) && !of_experts.contains(module);
  });
  return found == adapted.end() ? "" : *found;
}

// `modules`: those that a target must tell apart.
std::string config_text(const nn::Adapter& adapter, const std::vector<PeftTensor>& tensors, const PeftWhole& whole,
                        const layout::FileMap& files, const std::set<std::string>& modules, const std::string& base) {
  const auto list = adapted_modules(tensors);
  const std::set<std::string> adapted(list.begin(), list.end());
  if (const auto module = taken_for_experts(adapted, files); !module.empty()) {
    log::warning(cat("peft takes the adapter of ", module,
                     " for one of the experts beside it where transformers is 5 or ",
                     "newer, and loads no such adapter: export the model merged for it, --to hf --merge"));
  }
  const auto transposed = [](const auto& entry) { return entry.second.transposed; };
  Json json;
  json["peft_type"] = "LORA";
  json["task_type"] = "CAUSAL_LM";
  json["base_model_name_or_path"] = base;
  json["r"] = adapter.rank;
  json["lora_alpha"] = adapter.alpha;
  const auto parameters = adapted_parameters(tensors);
  // peft refuses dropout with parameters; an evaluation has none.
  json["lora_dropout"] = parameters.empty() ? adapter.dropout : 0.0;
  json["use_rslora"] = adapter.rank_stabilised;
  const auto targets = targets_of(adapted, modules, !files.config_table.empty());
  json["target_modules"] = std::vector<std::string>(targets.begin(), targets.end());
  if (!parameters.empty()) {
    const auto of =
        targets_of({parameters.begin(), parameters.end()}, parameters_of(files), !files.config_table.empty());
    json["target_parameters"] = std::vector<std::string>(of.begin(), of.end());
  }
  json["bias"] = whole.bias;
  json["fan_in_fan_out"] = std::any_of(files.tensors.begin(), files.tensors.end(), transposed);  // GPT-2
  json["inference_mode"] = true;
  json["init_lora_weights"] = true;
  // peft then has one matrix for both, as the model has.
  json["ensure_weight_tying"] = !whole.tied.empty();
  json["modules_to_save"] = whole.modules_to_save.empty() ? Json() : Json(whole.modules_to_save);
  return json.sorted().dump(2) + "\n";
}

// What a run saved, and where that has no buffers, as beside a folder that it started from, this folder's.
class WithBuffers : public layout::Source {
 public:
  explicit WithBuffers(const strategy::Exported& run) : run_(run) {}
  bool has(const layout::Param& param) const override { return run_.values.has(param) || !run_.base.empty(); }
  void fill(const layout::Param& param, const Box& box, const at::Tensor& out) override {
    if (run_.values.has(param)) return run_.values.fill(param, box, out);
    if (!base_) base_ = checkpoint::open_folder(run_.base, run_.files);
    base_->fill(param, box, out);
  }

 private:
  const strategy::Exported& run_;
  std::unique_ptr<layout::Source> base_;
};

}  // namespace

std::vector<PeftTensor> peft_tensors(const std::vector<const nn::Adapter*>& adapters, const layout::FileMap& files) {
  std::vector<PeftTensor> tensors;
  for (const auto* adapter : adapters) {
    const auto& at = file_tensor(files, adapter->base->records().front());
    if (adapter->stacked == 0) {
      add_plain(*adapter, files, tensors);
    } else if (at.stack.empty()) {
      add_parameter(*adapter, files, tensors);
    } else {
      add_stacked(*adapter, files, tensors);
    }
  }
  for (auto& tensor : tensors) {
    if (!tensor.parameter.empty()) continue;
    const auto module = tensor.key.substr(peft_prefix.size(), tensor.key.rfind(".lora_") - peft_prefix.size());
    if (is_router_of_parameters(module, files)) tensor.parameter = module + ".weight";
  }
  return tensors;
}

std::string PeftExporter::write(const std::filesystem::path& folder, const strategy::Exported& run) const {
  const auto contents = peft_contents(adapted_);
  const auto files = by_parameters(run.files);
  const auto tensors = peft_tensors(contents.adapters, files);
  const auto whole = peft_whole(contents, files);
  std::vector<checkpoint::NamedTensor> values;
  for (const auto& tensor : tensors) {
    auto value = at::empty(tensor.shape, at::kFloat);
    if (!tensor.order.empty()) {
      const auto& part = tensor.parts.front();
      const auto record = at::empty(part.record->shape, at::kFloat);
      run.values.fill(*part.record, part.box, record);
      values.push_back({tensor.key, record.permute(tensor.order).reshape(tensor.shape)});
      continue;
    }
    for (const auto& part : tensor.parts) {
      const auto rows = part.box.numel() / tensor.shape.back();
      run.values.fill(*part.record, part.box, value.narrow(0, part.first_row, rows));
    }
    values.push_back({tensor.key, value});
  }
  WithBuffers saved(run);
  for (auto& value : checkpoint::folder_tensors(contents.trained, whole.map, saved, at::kFloat))
    values.push_back(std::move(value));
  for (auto& value : checkpoint::folder_tensors(whole.tied, whole.map, run.values, at::kFloat))
    values.push_back({tied_head_key, std::move(value.tensor)});
  const auto& first = *contents.adapters.front();
  checkpoint::write_safetensors(folder / peft_tensors_file, values);
  auto modules = modules_of(files);
  modules.merge(modules_of(run.files));  // transformers 4 has modules by the files' names
  write_file(folder / peft_config_file, config_text(first, tensors, whole, files, modules, run.base));
  std::int64_t parameters = 0;
  for (const auto* adapter : contents.adapters) parameters += adapter->down->numel() + adapter->up->numel();
  for (const auto* record : contents.trained) parameters += layout::numel(record->shape);
  return cat("rank ", first.rank, ", ", thousands(parameters), " parameters");
}

}  // namespace lora
