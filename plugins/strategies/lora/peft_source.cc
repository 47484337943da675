#include <ATen/ATen.h>
#include <capstan/base/json.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <utility>

#include "names.h"
#include "peft.h"

namespace lora {

using namespace capstan;

namespace {

namespace fs = std::filesystem;
using layout::Box;

// Throws where the folder has nothing that can be compared with the run.
PeftConfig read_config(const fs::path& folder) {
  Diagnostics faults;
  for (const char* name : {peft_config_file, peft_tensors_file}) {
    if (is_there(folder / name)) continue;
    faults.add(folder.string(), is_there(folder) ? cat("it has no ", name) : "there is no such folder",
               cat("name a folder with ", peft_config_file, " and ", peft_tensors_file,
                   ", as peft's save_pretrained and capstan export --to peft write it"));
    faults.throw_if_any();
  }
  auto config = PeftConfig::read(folder / peft_config_file, faults);
  faults.throw_if_any();
  return config;
}

// A kind of adapter that Capstan has not, by what its tensors are called.
struct OtherKind {
  std::string_view part;
  std::string_view means;
};
constexpr OtherKind other_kinds[] = {
    {".lora_embedding_", "an embedding's adapter"},
    {".lora_magnitude_vector", "the sizes of weights (DoRA)"},
    {".lora_B.bias", "an adapter's bias"},
    {".token_adapter.", "single rows of an embedding"},
};

// "lm_head.weight", or "embed_tokens.lora_embedding_A, which is an embedding's adapter".
std::string unused_text(const std::string& name) {
  const auto is_in = [&](const OtherKind& kind) { return name.find(kind.part) != std::string::npos; };
  const auto* kind = std::find_if(std::begin(other_kinds), std::end(other_kinds), is_in);
  return kind == std::end(other_kinds) ? name : cat(name, " (", kind->means, ", which Capstan does not have)");
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
    : folder_(std::move(folder)),
      table_(contents.adapters.empty() ? "strategy.lora" : contents.adapters.front()->table) {
  const auto config = read_config(folder_);
  Diagnostics diagnostics;
  if (!contents.adapters.empty()) config.compare(*contents.adapters.front(), diagnostics);
  file_ = std::make_unique<const checkpoint::SafetensorsFile>(folder_ / peft_tensors_file);
  std::set<std::string> used;
  const auto tensors = peft_tensors(contents.adapters, files);
  for (const auto& tensor : tensors) {
    used.insert(tensor.key);
    find(tensor, diagnostics);
  }
  judge_tied(contents, files, used, diagnostics);
  if (!contents.trained.empty()) open_whole(contents, files, used, diagnostics);
  judge_selection(config, tensors, files, used, diagnostics);
  refuse_unused(used, diagnostics);
  check_shared(diagnostics);
  diagnostics.throw_if_any();
}

void PeftSource::refuse_unused(const std::set<std::string>& used, Diagnostics& diagnostics) const {
  std::vector<std::string> unused;
  for (const auto& [name, info] : file_->tensors()) {
    if (!used.contains(name)) unused.push_back(unused_text(name));
  }
  if (unused.empty()) return;
  diagnostics.add(file_->path().string(), cat("it has tensors that no adapter of this run uses: ", join(unused)),
                  cat("choose ", table_, ".targets, modules_to_save and bias as in its adapter_config.json"));
}

// Parameters that peft gives an adapter, and this run none.
void PeftSource::judge_parameters(const PeftConfig& config, const std::vector<std::string>& adapted,
                                  Diagnostics& diagnostics) const {
  for (const auto& name : config.parameters.names) {
    if (std::any_of(adapted.begin(), adapted.end(), [&](const auto& one) { return names_module(name, one); })) continue;
    diagnostics.add(config.path, cat("its target_parameters has ", name, ", and no adapter of this run is there"),
                    cat("choose ", table_,
                        ".targets as there: experts' matrices are \"experts\"; or let peft merge the "
                        "adapter into its model (merge_and_unload) and start from that with model.path"));
  }
}

// What the two files of the folder say of each other: peft passes over an adapter's tensors where adapter_config.json
// has none, and fails without those of modules_to_save.
void PeftSource::judge_selection(const PeftConfig& config, const std::vector<PeftTensor>& tensors,
                                 const layout::FileMap& files, const std::set<std::string>& used,
                                 Diagnostics& diagnostics) const {
  std::vector<std::string> left_out;
  for (const auto& module : adapted_modules(tensors)) {
    const bool is_there = file_->has(cat(peft_prefix, module, ".lora_A.weight"));
    if (is_there && !config.adapts(module)) left_out.push_back(module);
  }
  const auto parameters = adapted_parameters(tensors);
  judge_parameters(config, parameters, diagnostics);
  for (const auto& parameter : parameters) {
    if (!config.adapts_parameter(parameter)) left_out.push_back(parameter);
  }
  if (!left_out.empty()) {
    diagnostics.add(config.path,
                    cat("its target_modules, target_parameters, exclude_modules, layers_to_transform and "
                        "modules_to_save leave out ",
                        join(left_out), ", and ", peft_tensors_file, " has adapters of them, which peft passes over"),
                    "take the file that was saved with these tensors");
  }
  judge_saved(config, files, used, diagnostics);
}

// modules_to_save means tensors that the file must have.
void PeftSource::judge_saved(const PeftConfig& config, const layout::FileMap& files, const std::set<std::string>& used,
                             Diagnostics& diagnostics) const {
  std::set<std::string> missing;
  for (const auto& [record, tensor] : files.tensors) {
    for (const auto& name : names_in(tensor)) {
      const auto key = cat(peft_prefix, files.published(name));
      if (config.saves(module_of(files, name)) && !file_->has(key) && !used.contains(key)) missing.insert(key);
    }
  }
  if (missing.empty()) return;
  diagnostics.add(file_->path().string(),
                  cat("it has no tensor ", join({missing.begin(), missing.end()}), ", which modules_to_save of its ",
                      peft_config_file, " means"),
                  "copy or download the adapter again");
}

// peft gives the embedding and a head that is tied to it values of their own, each what the file has for it and else
// the base's. Here they are one matrix: the file must have both, and alike.
void PeftSource::judge_tied(const PeftContents& contents, const layout::FileMap& files, std::set<std::string>& used,
                            Diagnostics& diagnostics) const {
  for (const auto* record : contents.tied) {
    const auto at = files.tensors.find(record->name);
    if (at == files.tensors.end()) continue;
    const auto embedding = cat(peft_prefix, files.published(at->second.name));
    const bool has_embedding = file_->has(embedding), has_head = file_->has(tied_head_key);
    used.insert(tied_head_key);
    if (has_embedding == has_head && (!has_head || same_values(embedding, tied_head_key))) continue;
    used.insert(embedding);
    diagnostics.add(
        file_->path().string(),
        cat(has_embedding ? embedding : tied_head_key, has_embedding && has_head ? cat(" is not ", tied_head_key) : "",
            has_embedding != has_head ? " is saved alone" : "",
            ": peft parts the embedding and the head, which are one matrix in this model"),
        "train with ensure_weight_tying = true in peft's LoraConfig and \"lm_head\" beside the embedding in its "
        "modules_to_save; or let peft with transformers 5 merge the adapter into its model (merge_and_unload), whose "
        "head is then its own, and start from that with model.path");
  }
}

bool PeftSource::same_values(const std::string& one, const std::string& other) const {
  const auto& shape = file_->info(one).shape;
  if (shape != file_->info(other).shape || shape.size() != 2) return false;
  constexpr std::int64_t rows_at_once = 4096;
  for (std::int64_t row = 0; row < shape[0]; row += rows_at_once) {
    const Box box{{0, 0}, {std::min(rows_at_once, shape[0] - row), shape[1]}};
    if (!at::equal(read({one, box, row}), read({other, box, row}))) return false;
  }
  return true;
}

void PeftSource::find(const PeftTensor& tensor, Diagnostics& diagnostics) {
  if (!file_->has(tensor.key)) {
    diagnostics.add(file_->path().string(), cat("it has no tensor ", tensor.key),
                    cat("choose ", table_, ".targets as in its adapter_config.json"));
    return;
  }
  if (!fits(tensor.key, tensor.shape, diagnostics)) return;
  for (const auto& part : tensor.parts) {
    auto& record = adapters_[part.record->name];
    record.shape = part.record->shape;
    const auto is_same = [&](const TensorRows& piece) { return piece.box == part.box; };
    const bool again = std::any_of(record.pieces.begin(), record.pieces.end(), is_same);
    (again ? record.repeated : record.pieces).push_back({tensor.key, part.box, part.first_row, tensor.order});
  }
}

// Whether a tensor of the file has the shape and the kind of numbers that the run needs.
bool PeftSource::fits(const std::string& key, const layout::Shape& shape, Diagnostics& diagnostics) const {
  const auto& info = file_->info(key);
  const auto dtype = checkpoint::torch_dtype(info.dtype);
  if (info.shape != shape) {
    diagnostics.add(file_->path().string(),
                    cat(key, " is ", layout::shape_text(info.shape), ", this run needs ", layout::shape_text(shape)));
  } else if (!c10::isFloatingType(dtype)) {
    diagnostics.add(file_->path().string(),
                    cat(key, " is of ", c10::toString(dtype), ", and weights are floating-point numbers"),
                    "copy or download the adapter again");
  } else {
    return true;
  }
  return false;
}

at::Tensor PeftSource::read(const TensorRows& piece) const {
  if (!piece.order.empty()) {
    const auto value = at::empty(piece.box.size, at::kFloat).permute(piece.order);
    file_->read(piece.key, value.sizes().vec(), Box::whole(value.sizes().vec()), value);
    const auto back = at::empty(piece.box.size, at::kFloat);
    back.permute(piece.order).copy_(value);
    return back;
  }
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
  std::set<std::string> judged;
  const auto judge = [&](std::string& name, const layout::Shape& expected) {
    constexpr std::string_view wrapped = ".base_layer.";  // as newer versions of peft name it
    if (const auto at = name.find(wrapped); at != std::string::npos && !file_->has(name)) {
      auto older = name;
      if (older.replace(at, wrapped.size(), "."); file_->has(older)) name = older;
    }
    if (!judged.insert(name).second) return;  // a fused tensor is checked once
    used.insert(name);
    if (file_->has(name)) return void(fits(name, expected, diagnostics));
    diagnostics.add(file_->path().string(), cat("it has no tensor ", name, ", which this run trains"),
                    cat("choose ", table_, ".modules_to_save and bias as in its adapter_config.json"));
  };
  for (const auto* record : contents.trained) {
    auto& tensor = map.tensors.at(record->name);
    const auto expected = tensor.expected_shape(record->shape);
    if (tensor.stack.empty()) judge(tensor.name, expected);
    for (auto& name : tensor.stack) judge(name, expected);
  }
  whole_ = checkpoint::open_folder(folder_, map, peft_tensors_file);
}

void PeftSource::fill(const layout::Param& param, const Box& box, const at::Tensor& out) {
  const auto found = adapters_.find(param.name);
  if (found == adapters_.end()) return whole_->fill(param, box, out);
  const auto whole = at::empty(found->second.shape, at::kFloat);
  for (const auto& piece : found->second.pieces) layout::view_of(whole, piece.box).copy_(read(piece));
  out.view(box.size).copy_(layout::view_of(whole, box));
}

}  // namespace lora
