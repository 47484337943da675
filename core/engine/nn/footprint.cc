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

std::string footprint_table(const std::vector<Footprint>& footprints, const std::vector<Footprint>& peaks) {
  std::vector<std::vector<std::string>> rows{{"part", "device", "when", "memory"}};
  std::vector<std::string> devices;
  const auto add = [&](const Footprint& one) {
    rows.push_back({one.part, one.device, one.when, bytes_text(static_cast<double>(one.bytes))});
  };
  for (const auto& footprint : footprints) {
    add(footprint);
    if (std::find(devices.begin(), devices.end(), footprint.device) == devices.end())
      devices.push_back(footprint.device);
  }
  for (const auto& device : devices) add({"sum", total_bytes(footprints, device), device, ""});
  for (const auto& peak : peaks) add(peak);
  return table_text(rows);
}

}  // namespace capstan::layout
