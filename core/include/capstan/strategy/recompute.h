#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/layer.h>

#include <ATen/core/Tensor.h>

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// body(input), keeping only `input` for backward, where the body runs again (Chen et al. 2016, selective as in
/// Korthikanti et al. 2022). What fills a Region's `around` port:
///
///     region.around.fill("mine", [](const auto& body, const auto& x) { return strategy::recomputed(body, x); });
///
/// Gradients of the weights that the body reads accumulate as usual, whether or not `input` has one; randomness is
/// keyed, so masks are the same. The second run happens between the unit's before_backward and after_backward, when its
/// parameters are gathered. Without grad mode (evaluation, generation) it is a plain call.
at::Tensor recomputed(const nn::Region::Body& body, const at::Tensor& input);

}  // namespace strategy
CAPSTAN_END_NAMESPACE
