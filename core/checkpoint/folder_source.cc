#include <capstan/base/text.h>
#include <capstan/checkpoint/folder_source.h>

#include <algorithm>
#include <set>

#include "checkpoint/dtype.h"

namespace capstan::checkpoint {
namespace {

using layout::Box;
using layout::FileTensor;
using layout::Param;

// The box within the tensor that the file holds, in the record's orientation.
Box fused_box(const FileTensor& tensor, Box box) {
  if (tensor.part) box.offset[static_cast<std::size_t>(tensor.part->dim)] += tensor.part->offset;
  return box;
}

// "3 tensors are missing: a, b, c".
void add_list(Diagnostics& diagnostics, const std::string& where, const std::vector<std::string>& list,
              const std::string& what, const std::string& fix) {
  constexpr std::size_t shown = 20;
  if (list.empty()) return;
  std::vector<std::string> head(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(std::min(shown, list.size())));
  if (list.size() > shown) head.push_back(cat("… and ", list.size() - shown, " more"));
  diagnostics.add(where, cat(list.size(), list.size() == 1 ? " tensor " : " tensors ", what, ": ", join(head, "; ")),
                  fix);
}

}  // namespace

FolderSource::FolderSource(std::filesystem::path folder, layout::FileMap map)
    : path_(std::move(folder)), folder_(path_), map_(std::move(map)) {}

FolderSource::Place FolderSource::find(const Param& param) const {
  const auto mapped = map_.tensors.find(param.name);
  if (mapped == map_.tensors.end()) return {};
  Place place{&mapped->second, folder_.find(mapped->second.name), mapped->second.name};
  for (std::size_t i = 0; !place.file && i < map_.prefixes.size(); ++i) {
    place.name = map_.prefixes[i] + mapped->second.name;
    place.file = folder_.find(place.name);
  }
  return place;
}

bool FolderSource::is_ignored(const std::string& name) const {
  return std::any_of(map_.ignored.begin(), map_.ignored.end(), [&](const auto& end) { return name.ends_with(end); });
}

bool FolderSource::has(const Param& param) const { return find(param).file != nullptr; }

void FolderSource::check(const std::vector<const Param*>& params, Diagnostics& diagnostics) const {
  std::vector<std::string> missing;
  std::vector<std::string> wrong;
  std::set<std::string> used;
  for (const auto* param : params) {
    const auto place = find(*param);
    // A fused tensor stands for several records and is judged once.
    const auto& name = place.file ? place.name : place.tensor ? place.tensor->name : param->name;
    if (!used.insert(name).second) continue;
    if (!place.file) {
      missing.push_back(name);
      continue;
    }
    const auto& info = place.file->info(place.name);
    const auto expected = place.tensor->expected_shape(param->shape);
    if (info.shape != expected) {
      wrong.push_back(
          cat(place.name, " is ", layout::shape_text(info.shape), ", the model needs ", layout::shape_text(expected)));
    } else if (!c10::isFloatingType(info.dtype)) {
      wrong.push_back(cat(place.name, " holds ", dtype_name(info.dtype), ", not floating-point numbers"));
    }
  }
  std::vector<std::string> unexpected;
  for (auto& name : folder_.names()) {
    if (!used.contains(name) && !is_ignored(name)) unexpected.push_back(std::move(name));
  }
  const auto where = path_.string();
  add_list(diagnostics, where, missing, "missing", "is it a folder of this model's family?");
  add_list(diagnostics, where, wrong, "of another kind", "take the model's sizes from its config.json");
  add_list(diagnostics, where, unexpected, "that the model does not have",
           "take the model's sizes from its config.json");
}

void FolderSource::fill(const Param& param, const Box& box, const at::Tensor& out) {
  const auto place = find(param);
  if (!place.file) throw Error(cat("it has no tensor for '", param.name, "'"), {}, path_.string());
  const auto& tensor = *place.tensor;
  const auto expected = tensor.expected_shape(param.shape);
  if (place.file->info(place.name).shape != expected) {
    throw Error(cat("tensor '", place.name, "' is ", layout::shape_text(place.file->info(place.name).shape),
                    ", the model needs ", layout::shape_text(expected)),
                {}, place.file->path().string());
  }
  CAPSTAN_ASSERT(out.is_contiguous() && out.numel() == box.numel());
  auto part = fused_box(tensor, box);
  const auto target = out.view(box.size);
  if (!tensor.transposed) return place.file->read(place.name, tensor.fused_shape(param.shape), part, target);
  std::swap(part.offset[0], part.offset[1]);
  std::swap(part.size[0], part.size[1]);
  place.file->read(place.name, part, target.t());
}

}  // namespace capstan::checkpoint
