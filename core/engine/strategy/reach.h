#pragma once
// How far backward goes.
#include <capstan/base/export.h>
#include <capstan/nn/model.h>

#include <algorithm>
#include <cstddef>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// The unit at which backward ends: the first that has something to train. All after it are reached, frozen ones too,
/// and none before it is, whatever they are joined with. The number of units if nothing is trained.
inline std::size_t last_in_backward(const std::vector<nn::Unit*>& units) {
  const auto found = std::find_if(units.begin(), units.end(), [](const auto* unit) { return unit->trainable(); });
  return static_cast<std::size_t>(found - units.begin());
}

}  // namespace strategy
CAPSTAN_END_NAMESPACE
