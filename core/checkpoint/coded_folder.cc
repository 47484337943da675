#include "checkpoint/coded_folder.h"

#include <ATen/ATen.h>
#include <capstan/base/counted.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <set>

namespace capstan::checkpoint {
namespace {

using layout::Box;
using layout::Param;

const nn::CodecFiles* files_of(const nn::Codec& codec) { return dynamic_cast<const nn::CodecFiles*>(&codec); }

// A tensor as it is in the file: bytes as a view of them, numbers as a copy, which need not lie at whole numbers there.
at::Tensor as_it_is(const SafetensorsFile& file, const std::string& name) {
  const auto& info = file.info(name);
  if (info.dtype == Dtype::u8 && info.end - info.begin == static_cast<std::uint64_t>(layout::numel(info.shape))) {
    auto* bytes = const_cast<std::byte*>(file.bytes(name));  // a mapped file; only read
    return at::from_blob(bytes, info.shape, at::TensorOptions(at::kByte));
  }
  auto copy = at::empty(info.shape, at::TensorOptions(torch_dtype(info.dtype)));
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

CodedFolder::CodedFolder(std::filesystem::path folder, layout::FileMap map, Codecs codecs,
                         std::vector<nn::PackedForm> forms)
    : path_(std::move(folder)),
      folder_(path_, faults_),
      map_(std::move(map)),
      codecs_(std::move(codecs)),
      forms_(std::move(forms)) {
  plain_ = std::make_unique<FolderSource>(path_, map_without_coded(map_));
}

// The name of the tensor that a packed one's is put after; its own where it is none.
std::string CodedFolder::base_of(const std::string& name) const {
  for (const auto& form : forms_) {
    for (const auto& end : form.ends) {
      if (name.ends_with(end)) return name.substr(0, name.size() - end.size());
    }
  }
  return name;
}

// FolderSource looks for faults among tensors that it knows; the coded ones of this model are judged here.
layout::FileMap CodedFolder::map_without_coded(const layout::FileMap& map) const {
  auto rest = map;
  const auto known = known_names(map);
  for (const auto& name : folder_.names()) {
    const auto base = base_of(name);
    if (known.contains(base) && form_of({folder_.find(base), base})) rest.ignored.push_back(name);
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

const nn::PackedForm* CodedFolder::form_of(const Found& found) const {
  const auto has = [&](const std::string& end) { return folder_.find(found.name + end) != nullptr; };
  const auto is_of = [&](const auto& form) { return std::any_of(form.ends.begin(), form.ends.end(), has); };
  const auto form = found.file ? std::find_if(forms_.begin(), forms_.end(), is_of) : forms_.end();
  return form == forms_.end() ? nullptr : &*form;
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
    if (!form_of(found)) return {};
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

// A record of which a tensor is packed: can the codec take it?
void CodedFolder::judge(const Param& param, Unread& unread, Diagnostics& diagnostics) const {
  const auto& tensor = map_.tensors.at(param.name);
  const auto codec = codecs_.find(param.name);
  for (const auto& name : names_in(tensor, param, Box::whole(param.shape))) {
    const auto found = find(name);
    const auto* form = form_of(found);
    if (!form) continue;
    if (codec == codecs_.end() || !is_plain_place(tensor)) {
      unread[form].push_back(found.name);
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
  Unread unread;
  for (const auto* param : params) {
    const auto tensor = map_.tensors.find(param->name);
    const auto is_packed = [&](const std::string& name) { return form_of(find(name)) != nullptr; };
    const auto names = tensor == map_.tensors.end() ? std::vector<std::string>()
                                                    : names_in(tensor->second, *param, Box::whole(param->shape));
    if (std::any_of(names.begin(), names.end(), is_packed)) {
      judge(*param, unread, diagnostics);
    } else {
      plain.push_back(param);
    }
  }
  for (const auto& [form, names] : unread) {
    diagnostics.add(path_.string(),
                    cat(counted(names.size(), "tensor is", "tensors are"), " ", form->words,
                        ", and nothing in this run keeps them so: ", names.front(), names.size() > 1 ? ", …" : ""),
                    form->fix + ", or take the model that it was quantized from");
  }
  plain_->check(plain, diagnostics);
}

}  // namespace capstan::checkpoint
