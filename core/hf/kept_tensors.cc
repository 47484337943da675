// Tensors of a folder that are none of the trained model's, and that an export writes again: numbers as they are, codes
// decoded, since its config.json no longer says what they mean.
#include <ATen/ATen.h>
#include <capstan/base/counted.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <map>

#include "hf/folder_source.h"

namespace capstan::hf {
namespace {

// "model.vision_tower.*, mtp.*": whole families of names.
std::string beginnings(const std::vector<std::string>& names) {
  std::map<std::string, std::size_t> count;
  for (const auto& name : names) {
    auto parts = split(name, '.');
    // "model.vision_tower", "model.layers.61": "model" alone says nothing.
    const std::size_t size = parts.front() != "model" ? 1 : parts.size() > 1 && parts[1] == "layers" ? 3 : 2;
    parts.resize(std::min(parts.size(), size));
    ++count[join(parts, ".")];
  }
  std::vector<std::string> list;
  for (const auto& [begin, n] : count) list.push_back(cat(begin, ".*"));
  return join(list);
}

}  // namespace

// An empty beginning keeps all that has none of the text model's prefixes.
bool FolderSource::is_kept_around(const std::string& name) const {
  const auto& kept = map_.kept;
  const auto is_begin = [&](const auto& begin) { return name.starts_with(begin); };
  return std::find(kept.begin(), kept.end(), "") != kept.end() &&
         std::none_of(kept.begin(), kept.end(), [&](const auto& each) { return !each.empty() && is_begin(each); }) &&
         std::none_of(map_.prefixes.begin(), map_.prefixes.end(), is_begin);
}

bool FolderSource::is_kept(const std::string& name) const {
  if (is_kept_around(name)) return true;
  const auto prefix = std::find_if(map_.prefixes.begin(), map_.prefixes.end(),
                                   [&](const auto& begin) { return name.starts_with(begin); });
  const auto bare = prefix == map_.prefixes.end() ? name : name.substr(prefix->size());
  return std::any_of(map_.kept.begin(), map_.kept.end(), [&](const auto& begin) {
    return !begin.empty() && (name.starts_with(begin) || bare.starts_with(begin));
  });
}

std::set<std::string> FolderSource::own_names() const {
  std::set<std::string> names;
  for (const auto& [record, tensor] : map_.tensors) {
    for (const auto& name : names_of(tensor)) names.insert(find(name).name);
  }
  for (const auto& [copy, original] : map_.copies) names.insert(find(copy).name);
  return names;
}

std::vector<std::string> FolderSource::kept() const {
  if (map_.kept.empty()) return {};
  const auto own = own_names();
  auto names = folder_.names();
  // Codes are decoded, and need no scales then.
  std::erase_if(names, [&](const auto& name) {
    return own.contains(name) || !quantised_.matrix_of(name).empty() || !is_kept(name) || is_ignored(name);
  });
  return names;
}

checkpoint::TensorHead FolderSource::kept_head(const std::string& full_name, c10::ScalarType compute) const {
  if (auto shape = quantised_.shape_of(full_name)) return {full_name, compute, std::move(*shape)};
  const auto* file = folder_.find(full_name);
  CAPSTAN_ASSERT(file);
  const auto& info = file->info(full_name);
  return {full_name, checkpoint::torch_dtype(info.dtype), info.shape};
}

at::Tensor FolderSource::kept_tensor(const std::string& full_name, c10::ScalarType compute) const {
  const auto* file = folder_.find(full_name);
  CAPSTAN_ASSERT(file);
  if (const auto shape = quantised_.shape_of(full_name)) {
    auto out = at::empty(*shape, at::TensorOptions(compute));
    quantised_.read(full_name, *shape, layout::Box::whole(*shape), out);
    return out;
  }
  const auto& info = file->info(full_name);
  if (!file->is_whole(info)) {
    throw Error(cat("tensor '", full_name, "' is cut off"), "the file is damaged: copy or download it again",
                file->path().string());
  }
  auto* bytes = const_cast<std::byte*>(file->bytes(full_name));  // a mapped file; only read
  return at::from_blob(bytes, info.shape, at::TensorOptions(checkpoint::torch_dtype(info.dtype)));
}

std::vector<std::string> FolderSource::notes(const std::vector<const layout::Param*>& params) const {
  std::vector<std::string> notes, beside, stale;
  std::size_t decoded = 0;
  auto all = kept();
  for (const auto& name : all) decoded += quantised_.shape_of(name) ? 1 : 0;
  for (auto& name : all) (is_kept_around(name) ? beside : stale).push_back(std::move(name));
  if (!beside.empty()) {
    notes.push_back(cat(path_.string(), " has ", counted(beside.size(), "tensor"), " besides the text model's (",
                        beginnings(beside), "), which are not trained and kept as they are"));
  }
  if (!stale.empty()) {
    notes.push_back(cat(path_.string(), " has ", counted(stale.size(), "tensor"), " that are not trained (",
                        beginnings(stale), "): they are kept byte for byte, and stale once the model is trained"));
  }
  for (const auto* param : params) {
    const auto* tensor = mapped(*param);
    if (!tensor) continue;
    for (const auto& name : names_of(*tensor)) decoded += quantised_.shape_of(find(name).name) ? 1 : 0;
  }
  if (decoded > 0) {
    notes.push_back(cat(path_.string(), " has ", counted(decoded, "matrix", "matrices"), " ", quantised_.words(),
                        ", which are decoded as they are read; the exported model has numbers"));
  }
  return notes;
}

}  // namespace capstan::hf
