#include "job/override_points.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <utility>

namespace capstan::job {
bool claims(const strategy::Strategy& strategy, const std::string& point) {
  strategy::Claims claims;
  strategy.claim(claims);
  const auto& list = claims.exclusive_claims();
  return std::find(list.begin(), list.end(), point) != list.end();
}

bool any_claims(const Strategies& strategies, const std::string& point) {
  return std::any_of(strategies.begin(), strategies.end(),
                     [&](const auto& made) { return claims(*made.object, point); });
}

void claims_in_vain(const Made<strategy::Strategy>& made, const std::string& point, const std::string& method) {
  throw Error(
      cat("plugin '", made.name, "' claims the override point '", point, "', but its ", method, "() returns nothing"),
      cat("return an object from ", method, "(), or don't claim the override point"), made.where);
}

std::vector<layout::Axis> overridden_sums(const Strategies& strategies) {
  std::vector<layout::Axis> axes;
  for (const auto axis : {layout::Axis::dp, layout::Axis::replicate}) {
    if (any_claims(strategies, strategy::gradient_reduction_point(axis))) axes.push_back(axis);
  }
  return axes;
}

}  // namespace capstan::job
