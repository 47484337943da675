#include "peft.h"

#include <ATen/ATen.h>
#include <capstan/base/json.h>
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

std::string config_text(const nn::Adapter& adapter, const std::vector<PeftTensor>& tensors, const PeftWhole& whole,
                        const layout::FileMap& files, const std::string& base) {
  const auto modules = adapted_modules(tensors);
  const std::set<std::string> adapted(modules.begin(), modules.end());
  const auto transposed = [](const auto& entry) { return entry.second.transposed; };
  Json json;
  json["peft_type"] = "LORA";
  json["task_type"] = "CAUSAL_LM";
  json["base_model_name_or_path"] = base;
  json["r"] = adapter.rank;
  json["lora_alpha"] = adapter.alpha;
  json["lora_dropout"] = adapter.dropout;
  json["use_rslora"] = adapter.rank_stabilised;
  const auto targets = targets_of(adapted, modules_of(files), !files.config_table.empty());
  json["target_modules"] = std::vector<std::string>(targets.begin(), targets.end());
  json["bias"] = whole.bias;
  json["fan_in_fan_out"] = std::any_of(files.tensors.begin(), files.tensors.end(), transposed);  // GPT-2
  json["inference_mode"] = true;
  json["init_lora_weights"] = true;
  // peft then has one matrix for both, as the model has.
  json["ensure_weight_tying"] = !whole.tied.empty();
  json["modules_to_save"] = whole.modules_to_save.empty() ? Json() : Json(whole.modules_to_save);
  return json.sorted().dump(2) + "\n";
}

}  // namespace

std::vector<PeftTensor> peft_tensors(const std::vector<const nn::Adapter*>& adapters, const layout::FileMap& files) {
  std::vector<PeftTensor> tensors;
  for (const auto* adapter : adapters) {
    if (adapter->stacked == 0) {
      add_plain(*adapter, files, tensors);
    } else {
      add_stacked(*adapter, files, tensors);
    }
  }
  return tensors;
}

std::string PeftExporter::write(const std::filesystem::path& folder, const strategy::Exported& run) const {
  const auto contents = peft_contents(adapted_);
  const auto tensors = peft_tensors(contents.adapters, run.files);
  const auto whole = peft_whole(contents, run.files);
  std::vector<checkpoint::NamedTensor> values;
  for (const auto& tensor : tensors) {
    auto value = at::empty(tensor.shape, at::kFloat);
    for (const auto& part : tensor.parts) {
      const auto rows = part.box.numel() / tensor.shape.back();
      run.values.fill(*part.record, part.box, value.narrow(0, part.first_row, rows));
    }
    values.push_back({tensor.key, value});
  }
  for (auto& value : checkpoint::folder_tensors(contents.trained, whole.map, run.values, at::kFloat))
    values.push_back(std::move(value));
  for (auto& value : checkpoint::folder_tensors(whole.tied, whole.map, run.values, at::kFloat))
    values.push_back({tied_head_key, std::move(value.tensor)});
  const auto& first = *contents.adapters.front();
  checkpoint::write_safetensors(folder / peft_tensors_file, values);
  write_file(folder / peft_config_file, config_text(first, tensors, whole, run.files, run.base));
  std::int64_t parameters = 0;
  for (const auto* adapter : contents.adapters) parameters += adapter->down->numel() + adapter->up->numel();
  for (const auto* record : contents.trained) parameters += layout::numel(record->shape);
  return cat("rank ", first.rank, ", ", thousands(parameters), " parameters");
}

}  // namespace lora
