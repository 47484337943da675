#include "monitor/memory_text.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <iterator>

namespace capstan::monitor {
namespace {

std::string memory(std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

std::vector<MemoryPart> on_gpu(const std::vector<MemoryPart>& parts) {
  std::vector<MemoryPart> list;
  std::copy_if(parts.begin(), parts.end(), std::back_inserter(list), [](const auto& part) { return !part.on_host; });
  return list;
}

// The bytes of the parts of this name, which are taken out of the list; nothing where it has none.
std::string take(const std::string& name, std::vector<MemoryPart>& parts) {
  std::int64_t bytes = 0;
  const auto taken = std::erase_if(parts, [&](const auto& part) {
    bytes += part.part == name ? part.bytes : 0;
    return part.part == name;
  });
  return taken > 0 ? memory(bytes) : "";
}

}  // namespace

std::string memory_text(const std::vector<MemoryPart>& predicted, const std::vector<MemoryPart>& held,
                        std::int64_t peak) {
  std::vector<std::vector<std::string>> rows{{"part", "predicted", "held"}};
  auto others = on_gpu(held);
  std::int64_t sum = 0;
  for (const auto& part : on_gpu(predicted)) {
    sum += part.bytes;
    rows.push_back({part.part, memory(part.bytes)});
    if (const auto now = take(part.part, others); !now.empty()) rows.back().push_back(now);
  }
  for (const auto& part : others) rows.push_back({part.part, "", memory(part.bytes)});
  rows.push_back({"all tensors at once", memory(sum), cat("at most ", memory(peak))});
  return table_text(rows);
}

}  // namespace capstan::monitor
