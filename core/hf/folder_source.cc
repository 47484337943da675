#include "hf/folder_source.h"

#include <capstan/base/counted.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace capstan::hf {
namespace {

using checkpoint::SafetensorsFile;
using layout::Box;
using layout::FileTensor;
using layout::Param;

// The box within the tensor that the file holds, in the record's orientation.
Box fused_box(const FileTensor& tensor, Box box) {
  if (tensor.part) box.offset[static_cast<std::size_t>(tensor.part->dim)] += tensor.part->offset;
  return box;
}

// The same dimensions in the order in which the file has them.
Box in_order(const Box& box, const std::vector<std::int64_t>& order) {
  Box out;
  for (const auto d : order) {
    out.offset.push_back(box.offset.at(static_cast<std::size_t>(d)));
    out.size.push_back(box.size.at(static_cast<std::size_t>(d)));
  }
  return out;
}

// "3 tensors are missing: a, b, c".
void add_list(Diagnostics& diagnostics, const std::string& where, const std::vector<std::string>& list,
              const std::string& what, const std::string& fix) {
  constexpr std::size_t shown = 20;
  if (list.empty()) return;
  std::vector<std::string> head(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(std::min(shown, list.size())));
  if (list.size() > shown) head.push_back(cat("… and ", list.size() - shown, " more"));
  diagnostics.add(where, cat(counted(list.size(), "tensor"), " ", what, ": ", join(head, "; ")), fix);
}

// Missing names are reported as the model has them: without this folder's prefix.
std::string missing_without(const std::vector<std::string>& prefixes, const std::set<std::string>& names) {
  for (const auto& prefix : prefixes) {
    if (std::any_of(names.begin(), names.end(), [&](const auto& name) { return name.starts_with(prefix); }))
      return cat("missing (said without the \"", prefix, "\" of this folder's names)");
  }
  return "missing";
}

// Where a tensor that is read and its copy lie.
struct Pair {
  const SafetensorsFile& file;
  const std::string& name;
  const SafetensorsFile& copy_file;
  const std::string& copy;
};

// Compares the bytes of the box, row by row, in the files.
void require_equal(const Pair& pair, const Box& box) {
  const auto& info = pair.file.info(pair.name);
  const auto& other = pair.copy_file.info(pair.copy);
  bool is_equal = info.dtype == other.dtype && info.shape == other.shape;
  const auto columns = is_equal ? layout::numel(info.shape) / std::max<std::int64_t>(info.shape[0], 1) : 0;
  const bool is_matrix = info.shape.size() == 2;
  const auto width = dtype_bytes(info.dtype);
  const auto size = (is_matrix ? box.size[1] : columns) * width;
  for (std::int64_t i = 0; is_equal && i < box.size[0]; ++i) {
    const auto at = ((box.offset[0] + i) * columns + (is_matrix ? box.offset[1] : 0)) * width;
    is_equal = std::memcmp(pair.file.bytes(pair.name) + at, pair.copy_file.bytes(pair.copy) + at,
                           static_cast<std::size_t>(size)) == 0;
  }
  if (is_equal) return;
  throw Error(cat(pair.copy, " differs from ", pair.name,
                  ", although config.json says that they are one (tie_word_embeddings); transformers would use both"),
              "set model.tie_word_embeddings = false to train the head of its own, or take the tensor out of the file",
              pair.copy_file.path().string());
}

}  // namespace

FolderSource::FolderSource(std::filesystem::path folder, layout::FileMap map, const std::string& file)
    : path_(std::move(folder)), folder_(path_, faults_, file), map_(std::move(map)) {
  if (file.empty()) quantised_ = Quantised(path_, folder_);
}

const FileTensor* FolderSource::mapped(const Param& param) const {
  const auto found = map_.tensors.find(param.name);
  return found == map_.tensors.end() ? nullptr : &found->second;
}

std::vector<std::string> FolderSource::names_of(const FileTensor& tensor) {
  return tensor.stack.empty() ? std::vector<std::string>{tensor.name} : tensor.stack;
}

std::vector<std::string> FolderSource::names_in(const FileTensor& tensor, const Param& param, const Box& box) {
  if (tensor.stack.empty()) return {tensor.name};
  std::vector<std::size_t> places{0};
  for (std::size_t d = 0; d < tensor.stacked_dims(param.shape); ++d) {
    std::vector<std::size_t> finer;
    for (const auto place : places) {
      for (std::int64_t i = 0; i < box.size[d]; ++i)
        finer.push_back(place * static_cast<std::size_t>(param.shape[d]) + static_cast<std::size_t>(box.offset[d] + i));
    }
    places = std::move(finer);
  }
  std::vector<std::string> names;
  for (const auto place : places) names.push_back(tensor.stack[place]);
  return names;
}

FolderSource::Place FolderSource::find(const std::string& name) const {
  Place place{folder_.find(name), name};
  for (std::size_t i = 0; !place.file && i < map_.prefixes.size(); ++i) {
    place.name = map_.prefixes[i] + name;
    place.file = folder_.find(place.name);
  }
  return place;
}

std::optional<Mxfp4Tensor> FolderSource::find_packed(const std::string& name) const {
  auto found = Mxfp4Tensor::find(folder_, name);
  for (std::size_t i = 0; !found && i < map_.prefixes.size(); ++i)
    found = Mxfp4Tensor::find(folder_, map_.prefixes[i] + name);
  return found;
}

bool FolderSource::is_there(const std::string& name) const { return find(name).file || find_packed(name); }

std::optional<FolderSource::InFile> FolderSource::in_file(const std::string& name) const {
  const auto place = find(name);
  if (!place.file) {
    const auto packed = find_packed(name);
    return packed ? std::optional<InFile>({packed->name(), c10::kByte}) : std::nullopt;
  }
  return InFile{place.name, torch_dtype(place.file->info(place.name).dtype),
                quantised_.shape_of(place.name).has_value()};
}

layout::Shape FolderSource::shape_of(const Place& place) const {
  return quantised_.shape_of(place.name).value_or(place.file->info(place.name).shape);
}

void FolderSource::read(const Place& place, const layout::Shape& shape, const Box& box, const at::Tensor& out) const {
  if (quantised_.shape_of(place.name)) return quantised_.read(place.name, shape, box, out);
  place.file->read(place.name, shape, box, out);
}

std::string FolderSource::kind_fault(const Place& place, const layout::Shape& expected) const {
  const auto shape = shape_of(place);
  if (shape != expected)
    return cat(place.name, " is ", layout::shape_text(shape), ", the model needs ", layout::shape_text(expected));
  if (quantised_.shape_of(place.name)) return quantised_.fault_of(place.name);
  const auto dtype = place.file->info(place.name).dtype;
  const auto type = torch_dtype(dtype);
  if (c10::isFloat8Type(type))
    return cat(place.name, " holds ", dtype_name(dtype), ", and config.json does not say by which quantization_config");
  return c10::isFloatingType(type) ? "" : cat(place.name, " holds ", dtype_name(dtype), ", not floating-point numbers");
}

bool FolderSource::is_ignored(const std::string& name) const {
  return std::any_of(map_.ignored.begin(), map_.ignored.end(), [&](const auto& end) { return name.ends_with(end); });
}

bool FolderSource::may_lack(const Param& param) const {
  const auto& names = map_.may_be_absent;
  if (std::find(names.begin(), names.end(), param.name) == names.end()) return false;
  const auto* tensor = mapped(param);
  if (!tensor) return false;
  const auto tensors = names_of(*tensor);  // a stack of which some are there is damaged
  return std::none_of(tensors.begin(), tensors.end(), [&](const auto& name) { return is_there(name); });
}

bool FolderSource::has(const Param& param) const {
  const auto* tensor = mapped(param);
  if (!tensor) return false;
  const auto names = names_of(*tensor);
  return std::all_of(names.begin(), names.end(), [&](const auto& name) { return is_there(name); });
}

void FolderSource::check(const std::vector<const Param*>& params, Diagnostics& diagnostics) const {
  for (const auto& fault : faults_.list()) diagnostics.add(fault);
  std::vector<std::string> missing;
  std::vector<std::string> wrong;
  std::set<std::string> used;
  const auto judge = [&](const std::string& name, const layout::Shape& expected, bool may_be_absent) {
    const auto place = find(name);
    // A fused tensor holds several records and is checked once.
    if (!used.insert(place.file ? place.name : name).second) return;
    if (const auto packed = place.file ? std::nullopt : find_packed(name)) {
      for (const auto& part : packed->parts()) used.insert(part);
      if (auto fault = packed->fault(expected); !fault.empty()) wrong.push_back(std::move(fault));
      return;
    }
    if (!place.file) {
      const auto is_lost = [&](const std::string& prefix) { return folder_.is_lost(prefix + name); };
      const bool lost = is_lost("") || std::any_of(map_.prefixes.begin(), map_.prefixes.end(), is_lost);
      if (!lost && !may_be_absent) missing.push_back(name);
      return;
    }
    if (auto fault = kind_fault(place, expected); !fault.empty()) wrong.push_back(std::move(fault));
  };
  for (const auto* param : params) {
    const auto* tensor = mapped(*param);
    if (!tensor) {
      missing.push_back(param->name);
      continue;
    }
    const bool may_be_absent = may_lack(*param);
    for (const auto& name : names_of(*tensor)) judge(name, tensor->expected_shape(param->shape), may_be_absent);
  }
  for (const auto& [copy, original] : map_.copies) {  // they are compared where they are read
    if (const auto place = find(copy); place.file) used.insert(place.name);
  }
  std::vector<std::string> unexpected;
  for (auto& name : folder_.names()) {
    if (!used.contains(name) && !is_ignored(name) && quantised_.matrix_of(name).empty() && !is_kept(name))
      unexpected.push_back(std::move(name));
  }
  const auto where = path_.string();
  add_list(diagnostics, where, missing, missing_without(map_.prefixes, used), "is it a folder of this model's family?");
  add_list(diagnostics, where, wrong, "of another kind",
           "take the model's sizes from its config.json, and weights in a form of docs/model-files.md");
  add_list(diagnostics, where, unexpected, "that the model does not have",
           "take the model's sizes from its config.json");
}

void FolderSource::fill_one(const FileTensor& tensor, const std::string& name, const layout::Shape& shape,
                            const Box& box, const at::Tensor& out) const {
  const auto place = find(name);
  const auto expected = tensor.expected_shape(shape);
  if (const auto packed = place.file ? std::nullopt : find_packed(name)) {
    if (const auto fault = packed->fault(expected); !fault.empty()) throw Error(fault, {}, path_.string());
    return packed->read(tensor, shape, box, out);
  }
  if (!place.file) throw Error(cat("it has no tensor '", name, "'"), {}, path_.string());
  if (const auto held = shape_of(place); held != expected) {
    throw Error(cat("tensor '", place.name, "' is ", layout::shape_text(held), ", the model needs ",
                    layout::shape_text(expected)),
                {}, place.file->path().string());
  }
  if (!tensor.stack.empty()) return read(place, expected, box, out);
  if (!tensor.order.empty()) {
    const auto in_file = in_order(Box::whole(shape), tensor.order).size;
    return read(place, in_file, in_order(box, tensor.order), out.permute(tensor.order));
  }
  auto part = fused_box(tensor, box);
  if (!tensor.transposed) return read(place, tensor.fused_shape(shape), part, out);
  std::swap(part.offset[0], part.offset[1]);
  std::swap(part.size[0], part.size[1]);
  read(place, expected, part, out.t());
}

void FolderSource::fill(const Param& param, const Box& box, const at::Tensor& out) {
  const auto* tensor = mapped(param);
  if (!tensor) throw Error(cat("it has no tensor for '", param.name, "'"), {}, path_.string());
  CAPSTAN_ASSERT(out.is_contiguous() && out.numel() == box.numel());
  if (tensor->stack.empty()) {
    fill_one(*tensor, tensor->name, param.shape, box, out.view(box.size));
    for (const auto& [copy, original] : map_.copies) {
      if (original != tensor->name || box.empty()) continue;
      const auto own = find(original), other = find(copy);
      if (other.file) require_equal({*own.file, own.name, *other.file, other.name}, box);
    }
    return;
  }
  if (box.empty()) return;
  const auto leading = static_cast<std::ptrdiff_t>(tensor->stacked_dims(param.shape));
  const Box each{{box.offset.begin() + leading, box.offset.end()}, {box.size.begin() + leading, box.size.end()}};
  const auto names = names_in(*tensor, param, box);
  auto shape = each.size;
  shape.insert(shape.begin(), static_cast<std::int64_t>(names.size()));
  const auto parts = out.view(shape);
  for (std::size_t i = 0; i < names.size(); ++i)
    fill_one(*tensor, names[i], param.shape, each, parts[static_cast<std::int64_t>(i)]);
}

}  // namespace capstan::hf
