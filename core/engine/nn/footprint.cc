#include <capstan/base/text.h>
#include <capstan/layout/footprint.h>

#include <algorithm>

namespace capstan::layout {

std::int64_t total_bytes(const std::vector<Footprint>& footprints, const std::string& device) {
  std::int64_t sum = 0;
  for (const auto& footprint : footprints) {
    if (footprint.device == device) sum += footprint.bytes;
  }
  return sum;
}

std::string footprint_table(const std::vector<Footprint>& footprints) {
  std::vector<std::vector<std::string>> rows{{"part", "device", "when", "memory"}};
  std::vector<std::string> devices;
  const auto memory = [](std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  for (const auto& footprint : footprints) {
    rows.push_back({footprint.part, footprint.device, footprint.when, memory(footprint.bytes)});
    if (std::find(devices.begin(), devices.end(), footprint.device) == devices.end()) {
      devices.push_back(footprint.device);
    }
  }
  for (const auto& device : devices) rows.push_back({"sum", device, "", memory(total_bytes(footprints, device))});
  return table_text(rows);
}

}  // namespace capstan::layout
