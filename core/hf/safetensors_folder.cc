#include "hf/safetensors_folder.h"

#include <capstan/base/json.h>
#include <capstan/base/log.h>
#include <capstan/base/paths.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <string_view>

namespace capstan::hf {

using checkpoint::SafetensorsFile;

namespace {

namespace fs = std::filesystem;

bool has_pickled_weights(const fs::path& folder) {
  for (const auto& path : entries_of(folder)) {
    if (path.filename().string().starts_with("pytorch_model") && path.extension() == ".bin") return true;
  }
  return false;
}

[[noreturn]] void no_weights(const fs::path& folder) {
  if (!is_folder(folder)) throw Error("no such folder", {}, folder.string());
  if (has_pickled_weights(folder)) {
    throw Error("its weights are pickled .bin files, which run code when opened; only safetensors are read",
                cat("convert them once: python3 -c 'from transformers import AutoModelForCausalLM as M; "
                    "M.from_pretrained(\"",
                    folder.string(), "\").save_pretrained(\"", folder.string(), "\")'"),
                folder.string());
  }
  for (const auto& path : entries_of(folder)) {
    const auto name = path.filename().string();
    if (!name.starts_with("model-") || path.extension() != ".safetensors") continue;
    throw Error(cat("it holds ", name, ", but no model.safetensors.index.json that says what is in which file"),
                "download the model's model.safetensors.index.json too", folder.string());
  }
  throw Error("it holds neither model.safetensors nor model.safetensors.index.json",
              is_there(folder / "config.json") ? "its weights are missing: download the model's *.safetensors"
                                               : "name the folder of a model",
              folder.string());
}

// Tensor name -> file name.
std::map<std::string, std::string> weight_map(const fs::path& index) {
  constexpr const char* fix = "it is damaged: copy or download it again";
  const auto text = read_file(index);
  const auto json = parse_json(text, "no valid index: ", fix, index.string());
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (map == json.end() || !map->is_object())
    throw Error("no valid index: it has no \"weight_map\" of tensors and their files", fix, index.string());
  std::map<std::string, std::string> out;
  for (const auto& [tensor, file] : map->items()) {
    // Only a name counts: an index from elsewhere must not lead to files outside of its folder.
    const auto name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name == "." || name == ".." ||
        name.find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
      throw Error(cat("no valid index: tensor '", tensor, "' is said to be in ", printable(file.dump()),
                      ", which is no name of a file in its folder"),
                  fix, index.string());
    }
    out.emplace(tensor, name);
  }
  return out;
}

// The file, or nothing if it is missing or damaged, which is added to `faults`.
std::unique_ptr<SafetensorsFile> open_file(const fs::path& path, Diagnostics& faults) {
  try {
    return std::make_unique<SafetensorsFile>(path, faults);
  } catch (const Error& error) {
    for (const auto& fault : error.diagnostics()) faults.add(fault);
    return nullptr;
  }
}

}  // namespace

SafetensorsFolder::SafetensorsFolder(const fs::path& folder) {
  Diagnostics faults;
  open(folder, faults);
  faults.throw_if_any();
}

SafetensorsFolder::SafetensorsFolder(const fs::path& folder, Diagnostics& faults, const std::string& file) {
  if (file.empty()) {
    open(folder, faults);
  } else {
    open_one(folder / file, faults);
  }
}

void SafetensorsFolder::open(const fs::path& folder, Diagnostics& faults) {
  const auto single = folder / "model.safetensors";
  const auto index = folder / "model.safetensors.index.json";
  if (is_there(single)) {  // transformers reads it too, whatever else there is
    if (is_there(index))
      log::warning(cat(single.string(), " is read; the index next to it, and the files that it names, are not"));
    open_one(single, faults);
  } else if (is_there(index)) {
    open_index(index, faults);
  } else {
    no_weights(folder);
  }
}

void SafetensorsFolder::open_one(const fs::path& path, Diagnostics& faults) {
  auto& file = files_[path.filename()] = open_file(path, faults);
  all_lost_ = !file;
  if (!file) return;
  for (const auto& item : file->tensors()) tensors_[item.first] = file.get();
}

void SafetensorsFolder::open_index(const fs::path& index, Diagnostics& faults) {
  std::set<std::string> broken;
  for (const auto& [tensor, name] : weight_map(index)) {
    auto& file = files_[name];
    if (!file && !broken.contains(name)) {
      const auto path = index.parent_path() / name;
      if (is_there(path)) {
        file = open_file(path, faults);
      } else {
        faults.add(index.string(), cat("names '", name, "', which is not there"), "download the missing file");
      }
      if (!file) broken.insert(name);
    }
    if (file && file->has(tensor)) {
      tensors_[tensor] = file.get();
      continue;
    }
    lost_.insert(tensor);
    if (file) {
      faults.add(index.string(), cat("says that '", name, "' holds tensor '", tensor, "', but it does not"),
                 "they are of different downloads: download the folder again");
    }
  }
}

std::vector<std::string> SafetensorsFolder::names() const {
  std::vector<std::string> out;
  for (const auto& item : tensors_) out.push_back(item.first);
  return out;
}

const SafetensorsFile* SafetensorsFolder::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

}  // namespace capstan::hf
