#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan/checkpoint/safetensors.h>

#include <algorithm>

#include "checkpoint/durable_file.h"

namespace capstan::checkpoint {
namespace {

void sort_as_python(std::vector<TensorHead>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorHead& a, const TensorHead& b) {
    const auto left = dtype_of(a.dtype);
    const auto right = dtype_of(b.dtype);
    return left != right ? left > right : a.name < b.name;
  });
}

std::string header_of(const std::vector<TensorHead>& order, const std::map<std::string, std::string>& metadata) {
  auto header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const auto& item : order) {
    CAPSTAN_ASSERT(!header.contains(item.name));
    const auto end = offset + static_cast<std::uint64_t>(layout::numel(item.shape)) * c10::elementSize(item.dtype);
    auto& entry = header[item.name];
    entry["dtype"] = dtype_name(dtype_of(item.dtype));
    entry["shape"] = item.shape;
    entry["data_offsets"] = {offset, end};
    offset = end;
  }
  auto text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorHead> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : order_(std::move(tensors)) {
  sort_as_python(order_);
  const auto header = header_of(order_, metadata);
  file_ = std::make_unique<DurableFile>(path);
  std::array<char, 8> length{};
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i) & 0xFF);
  file_->write(length.data(), length.size());
  file_->write(header.data(), header.size());
}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::add(const at::Tensor& tensor) {
  CAPSTAN_ASSERT(next_ < order_.size());
  const auto& head = order_[next_++];
  CAPSTAN_ASSERT(tensor.scalar_type() == head.dtype && tensor.sizes() == at::IntArrayRef(head.shape));
  const auto bytes = tensor.detach().cpu().contiguous();
  file_->write(bytes.const_data_ptr(), bytes.nbytes());
}

void SafetensorsWriter::finish() {
  CAPSTAN_ASSERT(next_ == order_.size());
  file_->finish();
}

void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<TensorHead> heads;
  std::map<std::string, const at::Tensor*> by_name;
  for (const auto& item : tensors) {
    heads.push_back({item.name, item.tensor.scalar_type(), item.tensor.sizes().vec()});
    CAPSTAN_ASSERT(by_name.emplace(item.name, &item.tensor).second);
  }
  SafetensorsWriter writer(path, std::move(heads), metadata);
  for (const auto& head : writer.order()) writer.add(*by_name.at(head.name));
  writer.finish();
}

}  // namespace capstan::checkpoint
