#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/checkpoint/safetensors.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/dtype.h"
#include "checkpoint/durable_file.h"

namespace capstan::checkpoint {
namespace {

using Order = std::vector<const NamedTensor*>;

Order file_order(const std::vector<NamedTensor>& tensors) {
  Order order;
  for (const auto& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    const int left = dtype_rank(a->tensor.scalar_type());
    const int right = dtype_rank(b->tensor.scalar_type());
    return left != right ? left > right : a->name < b->name;
  });
  return order;
}

std::string header_of(const Order& order, const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const auto* item : order) {
    CAPSTAN_ASSERT(!header.contains(item->name));
    const auto end = offset + item->tensor.nbytes();
    auto& entry = header[item->name];
    entry["dtype"] = dtype_name(item->tensor.scalar_type());
    entry["shape"] = item->tensor.sizes().vec();
    entry["data_offsets"] = {offset, end};
    offset = end;
  }
  auto text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const auto order = file_order(tensors);
  const auto header = header_of(order, metadata);
  DurableFile file(path);
  std::array<char, 8> length{};
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i) & 0xFF);
  file.write(length.data(), length.size());
  file.write(header.data(), header.size());
  for (const auto* item : order) {
    const auto bytes = item->tensor.detach().cpu().contiguous();
    file.write(bytes.const_data_ptr(), bytes.nbytes());
  }
  file.finish();
}

}  // namespace capstan::checkpoint
