#include "assembly/order.h"

#include <capstan/base/error.h>
#include <capstan/base/philox.h>

#include <numeric>
#include <utility>

namespace capstan::data {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t golden = 0x9E3779B97F4A7C15ULL;

}  // namespace

std::vector<std::int64_t> epoch_order(std::int64_t samples, std::uint64_t seed, std::int64_t epoch, bool shuffle) {
  CAPSTAN_ASSERT(samples >= 0 && epoch >= 0);
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (!shuffle) return order;
  const std::uint64_t key = mix_bits(mix_bits(seed + golden) ^ (static_cast<std::uint64_t>(epoch) * golden));
  // Fisher-Yates. The draw from [0, i] is the high half of a 64 x 64 bit product: its bias is below i / 2^64.
  for (std::size_t i = order.size(); i-- > 1;) {
    const auto draw = mix_bits(key + golden * static_cast<std::uint64_t>(i));
    const auto j = static_cast<std::size_t>((static_cast<Wide>(draw) * (i + 1)) >> 64U);
    std::swap(order[i], order[j]);
  }
  return order;
}

}  // namespace capstan::data
