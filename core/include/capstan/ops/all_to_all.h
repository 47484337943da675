#pragma once
#include <capstan/base/export.h>
#include <capstan/ops/collectives.h>

#include <cstdint>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// Sends rows to other ranks, with uneven counts: a differentiable collective as those in collectives.h. Every rank
/// must call it, even when it sends and receives no rows. Backward sends gradients back the same way, with forward's
/// counts.
class AllToAllRows : OnGroup {
 public:
  using OnGroup::OnGroup;
  /// x [sum of sent, …], sorted by the rank that rows go to: the first sent[0] go to rank 0. The result [sum of
  /// received, …] is sorted by the rank that rows come from. sent[r] is what rank r has as received[this rank].
  at::Tensor operator()(const at::Tensor& x, const std::vector<std::int64_t>& sent,
                        const std::vector<std::int64_t>& received) const;
};

}  // namespace ops
CAPSTAN_END_NAMESPACE
