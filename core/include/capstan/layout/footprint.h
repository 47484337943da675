#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace layout {

/// Memory that one owner will allocate on this rank; the owner takes its sizes from the same function.
struct Footprint {
  std::string part;  ///< "parameters", "gradients", "optimizer", …: the tag of the allocation
  std::int64_t bytes = 0;
  std::string device;  ///< "cpu", "cuda"
  std::string when;    ///< "always", "forward", "backward", "step", "update", "start", "evaluation"
};

/// Bytes of all phases on `device`.
std::int64_t total_bytes(const std::vector<Footprint>& footprints, const std::string& device);
/// A table for people: a line per part, then a sum for each device, then `peaks`, which are sums of some parts.
std::string footprint_table(const std::vector<Footprint>& footprints, const std::vector<Footprint>& peaks = {});

}  // namespace layout
CAPSTAN_END_NAMESPACE
