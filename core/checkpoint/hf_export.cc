#include "checkpoint/hf_export.h"

#include <ATen/ATen.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "checkpoint/dtype.h"

namespace capstan::checkpoint {
namespace {

using layout::Box;
using layout::FileTensor;
using layout::Param;

// "model-00002-of-00003.safetensors"; one file has no numbers.
std::string file_name(std::size_t index, std::size_t files) {
  if (files == 1) return "model.safetensors";
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "model-%05zu-of-%05zu.safetensors", index + 1, files);
  return name.data();
}

// The name of a tensor that the original does not have.
std::string written_name(const layout::FileMap& map, const std::string& name) {
  const bool bare = std::find(map.unprefixed.begin(), map.unprefixed.end(), name) != map.unprefixed.end();
  return bare || map.prefixes.empty() ? name : map.prefixes.front() + name;
}

// The box of a record that is the `index`-th of the tensors that it stacks.
Box stacked_box(const Param& record, const FileTensor& place, std::size_t index) {
  auto box = Box::whole(record.shape);
  auto rest = static_cast<std::int64_t>(index);
  for (auto d = place.stacked_dims(record.shape); d-- > 0;) {
    box.offset[d] = rest % record.shape[d];
    box.size[d] = 1;
    rest /= record.shape[d];
  }
  return box;
}

void check_finite(const at::Tensor& value, const std::string& name) {
  if (value.scalar_type() != at::kHalf || !value.isinf().any().item<bool>()) return;
  throw Error(cat("tensor '", name, "' has values beyond fp16's 65,504"), "export in bf16 or fp32: --dtype bf16");
}

}  // namespace

std::vector<std::string> without_place(const std::vector<const Param*>& records, const layout::FileMap& map) {
  std::vector<std::string> names;
  for (const auto* record : records) {
    if (!map.tensors.contains(record->name)) names.push_back(record->name);
  }
  return names;
}

std::int64_t HfWriter::Tensor::bytes() const {
  return layout::numel(head.shape) * static_cast<std::int64_t>(c10::elementSize(head.dtype));
}

HfWriter::HfWriter(HfWeights weights) : weights_(std::move(weights)) {
  if (const auto names = without_place(weights_.records, weights_.map); !names.empty()) {
    throw Error(cat(names.size(), names.size() == 1 ? " record has" : " records have",
                    " no place in a Hugging Face model folder: ", join(names, "; ")),
                "adapters are exported as such: --to peft");
  }
  for (const auto* record : weights_.records) {
    const auto& place = weights_.map.tensors.at(record->name);
    if (place.stack.empty()) add(place.name, {record, &place, 0});
    for (std::size_t i = 0; i < place.stack.size(); ++i) add(place.stack[i], {record, &place, i});
  }
  share_out();
}

void HfWriter::add(const std::string& name, const Piece& piece) {
  const auto in_file = weights_.original ? weights_.original->in_file(name) : std::nullopt;
  const auto whole_name = in_file ? in_file->name : written_name(weights_.map, name);
  for (auto& tensor : tensors_) {
    if (tensor.head.name != whole_name) continue;
    tensor.pieces.push_back(piece);
    return;
  }
  const auto dtype = weights_.dtype.value_or(in_file ? in_file->dtype : weights_.fallback);
  tensors_.push_back({{whole_name, dtype, piece.place->expected_shape(piece.record->shape)}, {piece}});
}

void HfWriter::share_out() {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (files_.empty() || bytes + tensors_[i].bytes() > weights_.shard_bytes) {
      files_.emplace_back();
      bytes = 0;
    }
    files_.back().push_back(i);
    bytes += tensors_[i].bytes();
  }
}

std::int64_t HfWriter::bytes() const {
  std::int64_t sum = 0;
  for (const auto& tensor : tensors_) sum += tensor.bytes();
  return sum;
}

c10::ScalarType HfWriter::dtype() const {
  std::map<c10::ScalarType, std::int64_t> elements;
  for (const auto& tensor : tensors_) elements[tensor.head.dtype] += layout::numel(tensor.head.shape);
  const auto most = std::max_element(elements.begin(), elements.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == elements.end() ? weights_.fallback : most->first;
}

// Frozen values come from the original: values read into the compute dtype would have lost bits.
layout::Source& HfWriter::source_of(const Param& record) const {
  if (!weights_.merged && !record.trainable && weights_.original && weights_.original->has(record))
    return *weights_.original;
  return *weights_.values;
}

at::Tensor HfWriter::read(const Tensor& tensor) const {
  const auto options = at::TensorOptions(tensor.head.dtype);
  const auto& first = tensor.pieces.front();
  if (!first.place->stack.empty()) {
    auto out = at::empty(tensor.head.shape, options);
    source_of(*first.record).fill(*first.record, stacked_box(*first.record, *first.place, first.stacked), out);
    return out;
  }
  auto fused = at::empty(first.place->fused_shape(first.record->shape), options);
  for (const auto& piece : tensor.pieces) {
    const auto& record = *piece.record;
    auto value = piece.place->part ? at::empty(record.shape, options) : fused;
    source_of(record).fill(record, Box::whole(record.shape), value);
    if (const auto& part = piece.place->part)
      fused.narrow(part->dim, part->offset, record.shape[static_cast<std::size_t>(part->dim)]).copy_(value);
  }
  if (first.place->transposed) return fused.t().contiguous();
  return fused.view(tensor.head.shape);
}

void HfWriter::write(const std::filesystem::path& folder, int rank, int world_size) const {
  const at::NoGradGuard no_grad;
  for (std::size_t file = 0; file < files_.size(); ++file) {
    if (static_cast<int>(file % static_cast<std::size_t>(world_size)) != rank) continue;
    std::map<std::string, const Tensor*> by_name;
    std::vector<TensorHead> heads;
    for (const auto index : files_[file]) {
      const auto& tensor = tensors_[index];
      by_name[tensor.head.name] = &tensor;
      heads.push_back(tensor.head);
    }
    SafetensorsWriter writer(folder / file_name(file, files_.size()), std::move(heads));
    for (const auto& head : writer.order()) {
      const auto value = read(*by_name.at(head.name));
      check_finite(value, head.name);
      writer.add(value);
    }
    writer.finish();
  }
}

std::vector<NamedTensor> HfWriter::values() const {
  const at::NoGradGuard no_grad;
  std::vector<NamedTensor> values;
  for (const auto& tensor : tensors_) values.push_back({tensor.head.name, read(tensor)});
  return values;
}

void HfWriter::write_index(const std::filesystem::path& folder) const {
  if (files_.size() < 2) return;
  nlohmann::json map = nlohmann::json::object();
  for (std::size_t file = 0; file < files_.size(); ++file) {
    for (const auto index : files_[file]) map[tensors_[index].head.name] = file_name(file, files_.size());
  }
  const nlohmann::json index{{"metadata", {{"total_size", bytes()}}}, {"weight_map", map}};
  write_file(folder / "model.safetensors.index.json", index.dump(2) + "\n");
}

}  // namespace capstan::checkpoint
