#pragma once
#include <capstan/base/export.h>
#include <capstan/ops/collectives.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// Sends rows to other ranks, with uneven counts: a differentiable collective as those in collectives.h. Every rank
/// must call it, even when it sends and receives no rows. Backward sends gradients back the same way, with the counts
/// of forward.
class AllToAllRows {
 public:
  AllToAllRows(std::shared_ptr<comm::Group> group, const std::string& label);
  /// x [sum of sent, …], sorted by the rank that rows go to: the first sent[0] go to rank 0. The result [sum of
  /// received, …] is sorted by the rank that rows come from. sent[r] is what rank r has as received[this rank].
  at::Tensor operator()(const at::Tensor& x, const std::vector<std::int64_t>& sent,
                        const std::vector<std::int64_t>& received) const;

 private:
  std::shared_ptr<const BoundGroup> bound_;
};

}  // namespace ops
CAPSTAN_END_NAMESPACE
