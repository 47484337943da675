#include <ATen/ATen.h>
#include <capstan/base/json.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "peft.h"

namespace lora {

using namespace capstan;

namespace {

namespace fs = std::filesystem;
using layout::Box;
using Json = nlohmann::json;

// Features of peft that adapters here do not have. They are refused by name: otherwise values would be wrong, or
// tensors of the file would be left over without an explanation.
struct Unknown {
  const char* key;
  const char* means;
};
constexpr Unknown unknown[] = {
    {"alpha_pattern", "modules with an alpha of their own"},
    {"rank_pattern", "modules with a rank of their own"},
    {"use_dora", "adapters that change the size of weights apart from their direction (DoRA)"},
    {"lora_bias", "adapters with a bias"},
    {"layer_replication", "layers that stand in the model more than once"},
    {"use_qalora", "quantised adapters (QALoRA)"},
    {"target_parameters", "adapters of parameters that are no module's"},
    {"trainable_token_indices", "single rows of the embedding"},
};

at::Tensor narrowed(at::Tensor tensor, const Box& box) {
  for (std::size_t d = 0; d < box.size.size(); ++d)
    tensor = tensor.narrow(static_cast<std::int64_t>(d), box.offset[d], box.size[d]);
  return tensor;
}

// What peft writes if a feature is off.
bool is_off(const Json& value) {
  if (value.is_structured()) return value.empty();
  return value.is_null() || (value.is_boolean() && !value.get<bool>());
}

bool is_text_or_texts(const Json& value) {
  if (value.is_null() || value.is_string()) return true;
  return value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& item) { return item.is_string(); });
}

void refuse_unknown(const Json& json, const std::string& path, Diagnostics& diagnostics) {
  const char* fix =
      "let peft merge it into its model (merge_and_unload) and start from that with model.path, or take an adapter "
      "without it";
  if (const auto type = json.value("peft_type", Json("LORA")); type != "LORA")
    diagnostics.add(path, cat("its peft_type is ", type.dump(), "; Capstan knows \"LORA\""), fix);
  if (const auto targets = json.value("target_modules", Json()); !is_text_or_texts(targets))
    diagnostics.add(path, cat("its target_modules is ", targets.dump(), ", neither a text nor a list of texts"), fix);
  for (const auto& [key, means] : unknown) {
    if (const auto value = json.value(key, Json()); !is_off(value))
      diagnostics.add(path, cat("its ", key, " is ", value.dump(), ": Capstan does not know ", means), fix);
  }
}

void compare(const Json& json, const nn::Adapter& adapter, const std::string& path, Diagnostics& diagnostics) {
  const auto judge = [&](const char* key, const char* option, const Json& mine, const Json& missing) {
    const auto theirs = json.value(key, missing);
    if (theirs == mine) return;
    diagnostics.add(path,
                    cat("its ", key == std::string("r") ? "rank r" : key, " is ", theirs.dump(), ", ", adapter.table,
                        ".", option, " is ", mine.dump()),
                    cat("set ", adapter.table, ".", option, " = ", theirs.dump()));
  };
  const auto whole = static_cast<std::int64_t>(adapter.alpha);
  const bool is_whole = static_cast<double>(whole) == adapter.alpha;
  judge("r", "rank", adapter.rank, 0);
  judge("lora_alpha", "alpha", is_whole ? Json(whole) : Json(adapter.alpha), 0);
  judge("use_rslora", "rank_stabilised", adapter.rank_stabilised, false);
}

// False: nothing more can be checked.
bool check_config(const fs::path& folder, const std::vector<const nn::Adapter*>& adapters, Diagnostics& diagnostics) {
  const auto before = diagnostics.size();
  for (const char* name : {peft_config_file, peft_tensors_file}) {
    if (is_there(folder / name)) continue;
    diagnostics.add(folder.string(), is_there(folder) ? cat("it has no ", name) : "there is no such folder",
                    cat("name a folder with ", peft_config_file, " and ", peft_tensors_file,
                        ", as peft's save_pretrained and capstan export --to peft write it"));
    return false;
  }
  const auto path = (folder / peft_config_file).string();
  const auto json = try_parse_json<Json>(read_file(path));
  if (!json.is_object()) {
    diagnostics.add(path, "it is not a JSON object", "copy or download the adapter again");
    return false;
  }
  refuse_unknown(json, path, diagnostics);
  if (diagnostics.size() != before) return false;
  if (!adapters.empty()) compare(json, *adapters.front(), path, diagnostics);
  return true;
}

// The place of a module's adapter when another module shares its A.
Diagnostic not_shared(const std::string& file, const std::vector<std::string>& keys, const std::string& record,
                      bool is_of_experts, const std::string& made_by) {
  auto what = cat(keys.front(), " differs from the A of the modules that share ", record);
  if (keys.size() > 1) what += cat(", and so do ", keys.size() - 1, " more");
  if (is_of_experts) {
    return {file, what + ": each expert's w1 and w3 have an A of their own there, \"experts\" has one for both",
            "such an adapter cannot be loaded: let peft merge it into its model (merge_and_unload) and start from that "
            "with model.path, or train new adapters"};
  }
  return {file, what, cat("name the modules themselves in ", made_by, ".targets (q_proj, …) instead of their role")};
}

}  // namespace

PeftSource::PeftSource(fs::path folder, const PeftContents& contents, const layout::FileMap& files)
    : folder_(std::move(folder)), table_(contents.adapters.empty() ? "" : contents.adapters.front()->table) {
  Diagnostics diagnostics;
  const bool known = check_config(folder_, contents.adapters, diagnostics);
  if (!known) diagnostics.throw_if_any();
  file_ = std::make_unique<const checkpoint::SafetensorsFile>(folder_ / peft_tensors_file);
  std::set<std::string> used;
  for (const auto& tensor : peft_tensors(contents.adapters, files)) {
    used.insert(tensor.key);
    find(tensor, diagnostics);
  }
  if (!contents.trained.empty()) open_whole(contents, files, used, diagnostics);
  std::vector<std::string> unused;
  for (const auto& [name, info] : file_->tensors()) {
    if (!used.contains(name)) unused.push_back(name);
  }
  if (!unused.empty()) {
    diagnostics.add(file_->path().string(), cat("it has tensors that no adapter of this run uses: ", join(unused)),
                    cat("choose ", table_, ".targets, modules_to_save and bias as in its adapter_config.json"));
  }
  check_shared(diagnostics);
  diagnostics.throw_if_any();
}

void PeftSource::find(const PeftTensor& tensor, Diagnostics& diagnostics) {
  const auto where = file_->path().string();
  if (!file_->has(tensor.key)) {
    diagnostics.add(where, cat("it has no tensor ", tensor.key),
                    cat("choose ", table_, ".targets as in its adapter_config.json"));
    return;
  }
  const auto& info = file_->info(tensor.key);
  if (info.shape != tensor.shape) {
    diagnostics.add(where, cat(tensor.key, " is ", layout::shape_text(info.shape), ", this run needs ",
                               layout::shape_text(tensor.shape)));
    return;
  }
  const auto dtype = checkpoint::torch_dtype(info.dtype);
  if (!c10::isFloatingType(dtype)) {
    diagnostics.add(where, cat(tensor.key, " is of ", c10::toString(dtype), ", and weights are floating-point numbers"),
                    "copy or download the adapter again");
    return;
  }
  for (const auto& part : tensor.parts) {
    auto& record = adapters_[part.record->name];
    record.shape = part.record->shape;
    const auto is_same = [&](const TensorRows& piece) { return piece.box == part.box; };
    const bool again = std::any_of(record.pieces.begin(), record.pieces.end(), is_same);
    (again ? record.repeated : record.pieces).push_back({tensor.key, part.box, part.first_row});
  }
}

at::Tensor PeftSource::read(const TensorRows& piece) const {
  const auto columns = piece.box.size.back();
  const Box rows{{piece.first_row, 0}, {piece.box.numel() / columns, columns}};
  const auto value = at::empty(rows.size, at::kFloat);
  file_->read(piece.key, rows, value);
  return value.view(piece.box.size);
}

// An A that modules share must have the same values for each of them in the file.
void PeftSource::check_shared(Diagnostics& diagnostics) const {
  for (const auto& [name, record] : adapters_) {
    std::vector<std::string> differing;
    for (const auto& other : record.repeated) {
      const auto is_same = [&](const TensorRows& piece) { return piece.box == other.box; };
      const auto first = std::find_if(record.pieces.begin(), record.pieces.end(), is_same);
      if (!at::equal(read(*first), read(other))) differing.push_back(other.key);
    }
    if (differing.empty()) continue;
    constexpr std::size_t plain = 2;  // dimensions of an A; a stack of experts has more
    const bool is_of_experts = record.shape.size() > plain;
    diagnostics.add(not_shared(file_->path().string(), differing, name, is_of_experts, table_));
    if (is_of_experts) return;  // so it is in every layer
  }
}

void PeftSource::open_whole(const PeftContents& contents, const layout::FileMap& files, std::set<std::string>& used,
                            Diagnostics& diagnostics) {
  auto map = peft_whole(contents, files).map;
  const auto judge = [&](std::string& name, const layout::Shape& expected) {
    constexpr std::string_view wrapped = ".base_layer.";  // as newer versions of peft name it
    if (const auto at = name.find(wrapped); at != std::string::npos && !file_->has(name)) {
      auto older = name;
      if (older.replace(at, wrapped.size(), "."); file_->has(older)) name = older;
    }
    if (!used.insert(name).second) return;  // a fused tensor is checked once
    if (!file_->has(name)) {
      diagnostics.add(file_->path().string(), cat("it has no tensor ", name, ", which this run trains"),
                      cat("choose ", table_, ".modules_to_save and bias as in its adapter_config.json"));
    } else if (file_->info(name).shape != expected) {
      diagnostics.add(file_->path().string(), cat(name, " is ", layout::shape_text(file_->info(name).shape),
                                                  ", this run needs ", layout::shape_text(expected)));
    }
  };
  for (const auto* record : contents.trained) {
    auto& tensor = map.tensors.at(record->name);
    const auto expected = tensor.expected_shape(record->shape);
    if (tensor.stack.empty()) judge(tensor.name, expected);
    for (auto& name : tensor.stack) judge(name, expected);
  }
  whole_ = std::make_unique<checkpoint::FolderSource>(folder_, std::move(map), peft_tensors_file);
}

void PeftSource::fill(const layout::Param& param, const Box& box, const at::Tensor& out) {
  const auto found = adapters_.find(param.name);
  if (found == adapters_.end()) return whole_->fill(param, box, out);
  const auto whole = at::empty(found->second.shape, at::kFloat);
  for (const auto& piece : found->second.pieces) narrowed(whole, piece.box).copy_(read(piece));
  out.view(box.size).copy_(narrowed(whole, box));
}

}  // namespace lora
