#include "hf/hf_export.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/counted.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <string_view>

namespace capstan::hf {
namespace {

using checkpoint::NamedTensor;
using checkpoint::SafetensorsWriter;
using checkpoint::TensorHead;
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

std::string misnamed_head(const std::vector<nn::Unit*>& units, const layout::FileMap& map) {
  if (map.prefixes.empty()) return {};
  const auto& prefix = map.prefixes.front();
  std::set<nn::WeightPtr> tables;
  std::vector<nn::WeightPtr> heads;
  for (auto* unit : units) {
    unit->each<nn::Embedding>([&](const nn::Embedding& table) { tables.insert(table.weight()); });
    unit->each<nn::VocabularyHead>([&](const nn::VocabularyHead& head) { heads.push_back(head.weight()); });
  }
  for (const auto& weight : heads) {
    const auto& record = weight->records().front().name;
    const auto found = map.tensors.find(record);
    if (tables.contains(weight) || found == map.tensors.end()) continue;
    const auto& name = found->second.name;
    const bool is_below = record.starts_with(prefix) || name.starts_with(prefix);
    const bool is_bare = std::find(map.unprefixed.begin(), map.unprefixed.end(), name) != map.unprefixed.end();
    if (is_below || is_bare) continue;
    return cat("the head ", record, " would be written as ", map.published(name), ", although it is neither below \"",
               prefix, "\" nor among FileMap::unprefixed, where its model has ",
               map.unprefixed.empty() ? "nothing" : join(map.unprefixed, ", "));
  }
  return {};
}

std::vector<TensorHead> HfWriter::Tensor::heads() const {
  if (!codec) return {head};
  std::vector<TensorHead> heads;
  for (const auto& part : codec->file_parts(head.shape))
    heads.push_back({head.name + part.end, part.dtype, part.shape});
  return heads;
}

std::int64_t HfWriter::Tensor::bytes() const {
  std::int64_t sum = 0;
  for (const auto& each : heads())
    sum += layout::numel(each.shape) * static_cast<std::int64_t>(c10::elementSize(each.dtype));
  return sum;
}

HfWriter::HfWriter(HfWeights weights) : weights_(std::move(weights)) {
  if (const auto names = without_place(weights_.records, weights_.map); !names.empty()) {
    throw Error(cat(counted(names.size(), "record has", "records have"),
                    " no place in a Hugging Face model folder: ", join(names, "; ")),
                "what a strategy added is in its own files: --to NAME");
  }
  for (const auto* record : weights_.records) {
    const auto& place = weights_.map.tensors.at(record->name);
    if (place.stack.empty()) add(place.name, {record, &place, 0});
    for (std::size_t i = 0; i < place.stack.size(); ++i) add(place.stack[i], {record, &place, i});
  }
  add_kept();
  share_out();
}

// In files a form is one of whole matrices; a tensor that stacks or transposes them is written as numbers.
const nn::Codec* HfWriter::codec_of(const RecordPart& piece) const {
  const auto found = weights_.codecs.find(piece.record->name);
  if (found == weights_.codecs.end() || found->second->stacked() > 0) return nullptr;
  const auto& place = *piece.place;
  const bool is_matrix = place.stack.empty() && !place.part && !place.transposed && place.order.empty();
  return is_matrix ? found->second.get() : nullptr;
}

void HfWriter::add(const std::string& name, const RecordPart& piece) {
  const auto in_file = weights_.original ? weights_.original->in_file(name) : std::nullopt;
  const auto whole_name = in_file ? in_file->name : weights_.map.published(name);
  const auto [place, is_new] = places_.try_emplace(whole_name, tensors_.size());
  if (!is_new) {
    tensors_[place->second].pieces.push_back(piece);
    return;
  }
  const auto* codec = codec_of(piece);
  // What is or was in a codec's form has been rounded to what the run computes with.
  const bool was_coded = in_file && (in_file->coded || !c10::isFloatingType(in_file->dtype));
  const bool is_buffer = piece.record->usage == layout::Usage::buffer;
  const auto fallback = is_buffer ? c10::kFloat : weights_.dtype.value_or(weights_.fallback);
  const auto dtype = codec || was_coded ? weights_.compute : in_file ? in_file->dtype : fallback;
  tensors_.push_back({{whole_name, is_buffer ? dtype : weights_.dtype.value_or(dtype),
                       piece.place->expected_shape(piece.record->shape)},
                      {piece},
                      codec});
}

void HfWriter::add_kept() {
  if (!weights_.original) return;
  for (const auto& name : weights_.original->kept())
    tensors_.push_back({weights_.original->kept_head(name, weights_.compute), {}, nullptr, /*is_kept=*/true});
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
  for (const auto& tensor : tensors_) {
    if (!tensor.is_kept) elements[tensor.head.dtype] += layout::numel(tensor.head.shape);
  }
  const auto most = std::max_element(elements.begin(), elements.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == elements.end() ? weights_.fallback : most->first;
}

// Frozen values come from the original: values read into the compute dtype would have lost bits.
layout::Source& HfWriter::source_of(const Param& record) const {
  layout::Source* frozen = weights_.frozen ? weights_.frozen : weights_.original;
  if (!weights_.merged && !record.trainable && frozen && frozen->has(record)) return *frozen;
  return *weights_.values;
}

at::Tensor HfWriter::read(const Tensor& tensor) const {
  if (tensor.is_kept) return weights_.original->kept_tensor(tensor.head.name, weights_.compute);
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
  if (!first.place->order.empty()) fused = fused.permute(first.place->order).contiguous();
  return fused.view(tensor.head.shape);
}

// A matrix in its codec's form, as it is where the source has codes.
HfWriter::Parts HfWriter::encoded(const Tensor& tensor) const {
  const auto& record = *tensor.pieces.front().record;
  auto& source = source_of(record);
  const nn::Codec::Extent extent{1, record.numel()};
  const auto whole = Box::whole(record.shape);
  const auto bytes = at::empty({tensor.codec->bytes(extent)}, at::TensorOptions(at::kByte));
  if (const auto coded = nn::coded_in(source, record, whole); !coded.empty()) {
    tensor.codec->read_matrices(extent, 0, coded, bytes);
  } else {
    const auto values = at::empty({1, extent.elements}, at::TensorOptions(weights_.compute));
    source.fill(record, whole, values);
    tensor.codec->encode(extent, values, bytes, {});
  }
  Parts parts;
  for (auto& [end, value] : tensor.codec->write_matrix(tensor.head.shape, bytes, tensor.head.dtype))
    parts[tensor.head.name + end] = std::move(value);
  return parts;
}

// In the file's order the parts of a matrix are not all together; it is encoded again for the later ones.
void HfWriter::write_file(const std::filesystem::path& path, const std::vector<std::size_t>& tensors) const {
  std::map<std::string, const Tensor*> by_name;
  std::vector<TensorHead> heads;
  for (const auto index : tensors) {
    for (auto& head : tensors_[index].heads()) {
      by_name[head.name] = &tensors_[index];
      heads.push_back(std::move(head));
    }
  }
  SafetensorsWriter writer(path, std::move(heads));
  const Tensor* last = nullptr;
  Parts parts;
  for (const auto& head : writer.order()) {
    const auto* tensor = by_name.at(head.name);
    if (tensor->codec && tensor != last) parts = encoded(*tensor);
    const auto value = tensor->codec ? parts.at(head.name) : read(*tensor);
    last = tensor;
    if (!tensor->is_kept) check_finite(value, head.name);
    writer.add(value);
  }
  writer.finish();
}

void HfWriter::write(const std::filesystem::path& folder, int rank, int world_size) const {
  const at::NoGradGuard no_grad;
  for (std::size_t file = 0; file < files_.size(); ++file) {
    if (static_cast<int>(file % static_cast<std::size_t>(world_size)) == rank)
      write_file(folder / file_name(file, files_.size()), files_[file]);
  }
}

bool HfWriter::has_codes() const {
  return std::any_of(tensors_.begin(), tensors_.end(), [](const auto& tensor) { return tensor.codec != nullptr; });
}

// The name under which transformers has it, whatever the file's is.
std::string HfWriter::module_tensor(const Tensor& tensor) const {
  if (tensor.is_kept) return tensor.head.name;
  const auto& piece = tensor.pieces.front();
  const auto& place = *piece.place;
  return weights_.map.published(place.stack.empty() ? place.name : place.stack[piece.stacked]);
}

std::vector<std::string> HfWriter::plain_modules() const {
  constexpr std::string_view end = ".weight";
  std::vector<std::string> modules;
  for (const auto& tensor : tensors_) {
    const auto name = module_tensor(tensor);
    if (!tensor.codec && tensor.head.shape.size() > 1 && name.ends_with(end))
      modules.push_back(name.substr(0, name.size() - end.size()));
  }
  return modules;
}

std::vector<NamedTensor> HfWriter::values() const {
  const at::NoGradGuard no_grad;
  std::vector<NamedTensor> values;
  for (const auto& tensor : tensors_) values.push_back({tensor.head.name, read(tensor)});
  return values;
}

std::vector<NamedTensor> folder_tensors(const std::vector<const Param*>& records, const layout::FileMap& map,
                                        layout::Source& values, c10::ScalarType dtype) {
  HfWeights weights;
  weights.records = records;
  weights.map = map;
  weights.values = &values;
  weights.dtype = dtype;
  return HfWriter(weights).values();
}

void HfWriter::write_index(const std::filesystem::path& folder) const {
  if (files_.size() < 2) return;
  auto map = Json::object();
  for (std::size_t file = 0; file < files_.size(); ++file) {
    for (const auto index : files_[file]) {
      for (const auto& head : tensors_[index].heads()) map[head.name] = file_name(file, files_.size());
    }
  }
  const Json index{{"metadata", {{"total_size", bytes()}}}, {"weight_map", map}};
  capstan::write_file(folder / "model.safetensors.index.json", index.sorted().dump(2) + "\n");
}

}  // namespace capstan::hf
