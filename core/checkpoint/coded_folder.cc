#include "checkpoint/coded_folder.h"

#include <ATen/ATen.h>
#include <capstan/base/counted.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <array>
#include <set>

namespace capstan::checkpoint {
namespace {

using layout::Box;
using layout::Param;

// What bitsandbytes puts next to a tensor that it has packed.
constexpr std::array packed_ends{".absmax",
                                 ".quant_map",
                                 ".nested_absmax",
                                 ".nested_quant_map",
                                 ".quant_state.bitsandbytes__nf4",
                                 ".quant_state.bitsandbytes__fp4"};

const nn::CodecFiles* files_of(const nn::Codec& codec) { return dynamic_cast<const nn::CodecFiles*>(&codec); }

// A tensor as it is in the file: bytes as a view of them, numbers as a copy, which need not lie at whole numbers there.
at::Tensor as_it_is(const SafetensorsFile& file, const std::string& name) {
  const auto& info = file.info(name);
  if (info.dtype == c10::kByte && info.end - info.begin == static_cast<std::uint64_t>(layout::numel(info.shape))) {
    auto* bytes = const_cast<std::byte*>(file.bytes(name));  // a mapped file; only read
    return at::from_blob(bytes, info.shape, at::TensorOptions(at::kByte));
  }
  auto copy = at::empty(info.shape, at::TensorOptions(info.dtype));
  file.read(name, Box::whole(info.shape), copy);
  return copy;
}

// The tensors of a stack that a box holds, in order; or the only one.
std::vector<std::string> names_in(const layout::FileTensor& tensor, const Param& param, const Box& box) {
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

// The name of the tensor that a packed one's is put after; its own where it is none.
std::string base_of(const std::string& name) {
  for (const std::string_view end : packed_ends) {
    if (name.ends_with(end)) return name.substr(0, name.size() - end.size());
  }
  return name;
}

// All names that the model's tensors may have in files.
std::set<std::string> known_names(const layout::FileMap& map) {
  std::set<std::string> names;
  for (const auto& [record, tensor] : map.tensors) {
    for (const auto& name : tensor.stack.empty() ? std::vector{tensor.name} : tensor.stack) {
      names.insert(name);
      for (const auto& prefix : map.prefixes) names.insert(prefix + name);
    }
  }
  return names;
}

bool is_plain_place(const layout::FileTensor& tensor) { return !tensor.part && !tensor.transposed; }

}  // namespace

Codecs codecs_of(const std::vector<nn::WeightPtr>& weights) {
  Codecs codecs;
  for (const auto& weight : weights) {
    if (!weight->codec() || weight->trainable() || !files_of(*weight->codec())) continue;
    for (const auto& record : weight->records()) codecs[record.name] = weight->codec();
  }
  return codecs;
}

CodedFolder::CodedFolder(std::filesystem::path folder, layout::FileMap map, Codecs codecs)
    : path_(std::move(folder)), folder_(path_, faults_), map_(std::move(map)), codecs_(std::move(codecs)) {
  plain_ = std::make_unique<FolderSource>(path_, map_without_coded(map_));
}

// FolderSource looks for faults among tensors that it knows; the coded ones of this model are judged here.
layout::FileMap CodedFolder::map_without_coded(const layout::FileMap& map) const {
  auto rest = map;
  const auto known = known_names(map);
  for (const auto& name : folder_.names()) {
    const auto base = base_of(name);
    if (known.contains(base) && is_coded({folder_.find(base), base})) rest.ignored.push_back(name);
  }
  return rest;
}

CodedFolder::Found CodedFolder::find(const std::string& name) const {
  Found found{folder_.find(name), name};
  for (std::size_t i = 0; !found.file && i < map_.prefixes.size(); ++i) {
    found.name = map_.prefixes[i] + name;
    found.file = folder_.find(found.name);
  }
  return found;
}

bool CodedFolder::is_coded(const Found& found) const {
  const auto has = [&](const char* end) { return folder_.find(found.name + end) != nullptr; };
  return found.file && std::any_of(packed_ends.begin(), packed_ends.end(), has);
}

nn::CodedMatrix CodedFolder::matrix(const Param& param, const Found& found, const nn::CodecFiles& files) const {
  const auto& tensor = map_.tensors.at(param.name);
  nn::CodedMatrix matrix{found.name, found.file->path().string(), tensor.expected_shape(param.shape), {}};
  for (const auto& part : files.parts(matrix.shape)) {
    const auto name = found.name + part.end;
    if (const auto* file = folder_.find(name)) matrix.parts[part.end] = as_it_is(*file, name);
  }
  return matrix;
}

std::vector<nn::CodedMatrix> CodedFolder::coded(const Param& param, const Box& box) const {
  const auto codec = codecs_.find(param.name);
  const auto tensor = map_.tensors.find(param.name);
  if (codec == codecs_.end() || tensor == map_.tensors.end() || !is_plain_place(tensor->second)) return {};
  std::vector<nn::CodedMatrix> matrices;
  for (const auto& name : names_in(tensor->second, param, box)) {
    const auto found = find(name);
    if (!is_coded(found)) return {};
    matrices.push_back(matrix(param, found, *files_of(*codec->second)));
  }
  return matrices;
}

void CodedFolder::fill(const Param& param, const Box& box, const at::Tensor& out) {
  const auto matrices = coded(param, box);
  if (matrices.empty()) return plain_->fill(param, box, out);
  const auto& codec = *codecs_.at(param.name);
  const auto each = out.view({static_cast<std::int64_t>(matrices.size()), -1});
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const nn::Codec::Extent extent{1, layout::numel(matrices[i].shape)};
    CAPSTAN_ASSERT(each.size(1) == extent.elements);
    const auto bytes = at::empty({codec.bytes(extent)}, at::TensorOptions(at::kByte));
    files_of(codec)->read(extent, 0, {matrices[i]}, bytes);
    const auto values = at::empty({1, extent.elements}, at::TensorOptions(out.scalar_type()));
    codec.decode(extent, bytes, values);
    each[static_cast<std::int64_t>(i)].copy_(values[0]);
  }
}

// A record of which a tensor is in 4 bits: can the codec take it?
void CodedFolder::judge(const Param& param, std::vector<std::string>& unread, Diagnostics& diagnostics) const {
  const auto& tensor = map_.tensors.at(param.name);
  const auto codec = codecs_.find(param.name);
  for (const auto& name : names_in(tensor, param, Box::whole(param.shape))) {
    const auto found = find(name);
    if (!is_coded(found)) continue;
    if (codec == codecs_.end() || !is_plain_place(tensor)) {
      unread.push_back(found.name);
      continue;
    }
    try {
      files_of(*codec->second)->check(matrix(param, found, *files_of(*codec->second)));
    } catch (const Error& error) {
      for (const auto& fault : error.diagnostics()) diagnostics.add(fault);
    }
  }
}

void CodedFolder::check(const std::vector<const Param*>& params, Diagnostics& diagnostics) const {
  std::vector<const Param*> plain;
  std::vector<std::string> unread;
  for (const auto* param : params) {
    const auto tensor = map_.tensors.find(param->name);
    const auto is_packed = [&](const std::string& name) { return is_coded(find(name)); };
    const auto names = tensor == map_.tensors.end() ? std::vector<std::string>()
                                                    : names_in(tensor->second, *param, Box::whole(param->shape));
    if (std::any_of(names.begin(), names.end(), is_packed)) {
      judge(*param, unread, diagnostics);
    } else {
      plain.push_back(param);
    }
  }
  if (!unread.empty()) {
    diagnostics.add(
        path_.string(),
        cat(counted(unread.size(), "tensor is", "tensors are"),
            " in 4 bits (bitsandbytes), and nothing in this run keeps them so: ", unread.front(),
            unread.size() > 1 ? ", …" : ""),
        "add [strategy.lora] and [strategy.nf4] with their layers among its targets, or take the model that "
        "it was quantized from");
  }
  plain_->check(plain, diagnostics);
}

}  // namespace capstan::checkpoint
