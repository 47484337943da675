#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace data {

/// The order in which an epoch visits the samples [0, samples): the identity, or with `shuffle` a permutation that
/// depends only on (seed, epoch, samples). Every rank computes it by itself, so it needs no communication and does
/// not depend on the world size. O(samples) time and memory. Integers only: the same on every machine.
std::vector<std::int64_t> epoch_order(std::int64_t samples, std::uint64_t seed, std::int64_t epoch, bool shuffle);

}  // namespace data
CAPSTAN_END_NAMESPACE
