#include "hf/coded_folder.h"

#include <ATen/ATen.h>
#include <capstan/base/counted.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <set>

namespace capstan::hf {
namespace {

using checkpoint::Dtype;
using checkpoint::SafetensorsFile;
using checkpoint::torch_dtype;
using layout::Box;
using layout::Param;

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

bool is_plain_place(const layout::FileTensor& tensor) {
  return !tensor.part && !tensor.transposed && tensor.order.empty();
}

}  // namespace

// FolderSource looks for faults among tensors that it knows; the coded ones of this model are judged here.
CodedFolder::CodedFolder(const FolderToOpen& folder)
    : FolderSource(folder.path, folder.map, folder.file), codecs_(folder.codecs), forms_(folder.forms) {
  std::set<std::string> known;  // all names that the model's tensors may have in files
  for (const auto& [record, tensor] : map_.tensors) {
    for (const auto& name : names_of(tensor)) {
      known.insert(name);
      for (const auto& prefix : map_.prefixes) known.insert(prefix + name);
    }
  }
  for (const auto& name : folder_.names()) {
    const auto base = base_of(name);
    if (known.contains(base) && form_of({folder_.find(base), base})) map_.ignored.push_back(name);
  }
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

const nn::PackedForm* CodedFolder::form_of(const Place& found) const {
  const auto has = [&](const std::string& end) { return folder_.find(found.name + end) != nullptr; };
  const auto is_of = [&](const auto& form) { return std::any_of(form.ends.begin(), form.ends.end(), has); };
  const auto form = found.file ? std::find_if(forms_.begin(), forms_.end(), is_of) : forms_.end();
  return form == forms_.end() ? nullptr : &*form;
}

nn::CodedMatrix CodedFolder::matrix(const Param& param, const Place& found, const nn::Codec& codec) const {
  const auto& tensor = map_.tensors.at(param.name);
  nn::CodedMatrix matrix{found.name, found.file->path().string(), tensor.expected_shape(param.shape), {}};
  for (const auto& part : codec.file_parts(matrix.shape)) {
    const auto name = found.name + part.end;
    if (const auto* file = folder_.find(name)) matrix.parts[part.end] = as_it_is(*file, name);
  }
  return matrix;
}

std::vector<nn::CodedMatrix> CodedFolder::coded(const Param& param, const Box& box) const {
  const auto codec = codecs_.find(param.name);
  const auto* tensor = mapped(param);
  if (codec == codecs_.end() || !tensor) return {};
  const auto packed = tensor->stack.empty() ? find_packed(tensor->name) : std::nullopt;
  if (packed && codec->second->form() == mxfp4_form)
    return packed->matrices(*tensor, param.shape, box, codec->second->stacked());
  if (!is_plain_place(*tensor)) return {};
  std::vector<nn::CodedMatrix> matrices;
  for (const auto& name : names_in(*tensor, param, box)) {
    const auto found = find(name);
    if (!form_of(found)) return {};
    matrices.push_back(matrix(param, found, *codec->second));
  }
  return matrices;
}

void CodedFolder::fill(const Param& param, const Box& box, const at::Tensor& out) {
  const auto* tensor = mapped(param);
  const bool decodes_itself = tensor && tensor->stack.empty() && find_packed(tensor->name);
  const auto matrices = decodes_itself ? std::vector<nn::CodedMatrix>() : coded(param, box);
  if (matrices.empty()) return FolderSource::fill(param, box, out);
  const auto& codec = *codecs_.at(param.name);
  const auto each = out.view({static_cast<std::int64_t>(matrices.size()), -1});
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const nn::Codec::Extent extent{1, layout::numel(matrices[i].shape)};
    CAPSTAN_ASSERT(each.size(1) == extent.elements);
    const auto bytes = at::empty({codec.bytes(extent)}, at::TensorOptions(at::kByte));
    codec.read_matrices(extent, 0, {matrices[i]}, bytes);
    const auto values = at::empty({1, extent.elements}, at::TensorOptions(out.scalar_type()));
    codec.decode(extent, bytes, values);
    each[static_cast<std::int64_t>(i)].copy_(values[0]);
  }
}

// Can the codec take a record that is packed in the files?
void CodedFolder::judge(const Param& param, Unread& unread, Diagnostics& diagnostics) const {
  const auto& tensor = map_.tensors.at(param.name);
  const auto codec = codecs_.find(param.name);
  for (const auto& name : names_of(tensor)) {
    const auto found = find(name);
    const auto* form = form_of(found);
    if (!form) continue;
    if (codec == codecs_.end() || !is_plain_place(tensor)) {
      unread[form].push_back(found.name);
      continue;
    }
    try {
      codec->second->check_matrix(matrix(param, found, *codec->second));
    } catch (const Error& error) {
      for (const auto& fault : error.diagnostics()) diagnostics.add(fault);
    }
  }
}

// What a codec keeps is not decoded.
std::vector<std::string> CodedFolder::notes(const std::vector<const Param*>& params) const {
  auto others = params;
  std::erase_if(others, [&](const auto* param) { return codecs_.contains(param->name); });
  return FolderSource::notes(others);
}

void CodedFolder::check(const std::vector<const Param*>& params, Diagnostics& diagnostics) const {
  std::vector<const Param*> plain;
  Unread unread;
  for (const auto* param : params) {
    const auto* tensor = mapped(*param);
    const auto is_packed = [&](const std::string& name) { return form_of(find(name)) != nullptr; };
    const auto names = tensor ? names_of(*tensor) : std::vector<std::string>();
    const bool is_kept = tensor && codecs_.contains(param->name) && is_plain_place(*tensor);
    const auto is_decoded = [&](const std::string& name) { return quantised_.shape_of(find(name).name).has_value(); };
    const bool decodes = !is_kept && std::all_of(names.begin(), names.end(), is_decoded);
    if (!decodes && std::any_of(names.begin(), names.end(), is_packed)) {
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
  FolderSource::check(plain, diagnostics);
}

}  // namespace capstan::hf
