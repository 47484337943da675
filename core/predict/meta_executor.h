#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <map>
#include <vector>

#include "comm/in_flight.h"
#include "shard/counting_executor.h"

CAPSTAN_BEGIN_NAMESPACE
namespace predict {

/// For a dry run on the meta device: binds every weight to a leaf of its dtype there, and frees gradients when
/// the engine would.
class MetaExecutor : public shard::CountingExecutor {
 public:
  MetaExecutor(const shard::ShardPlan& plan, Add add);
  void reduce(std::size_t bucket, const shard::Reduction& how) override;
  void bind(std::size_t bucket, bool looks_up) override;
  void add_rows(std::size_t bucket, const shard::Reduction& how) override;

 private:
  /// A table's leaf for lookups, and that of its other user.
  struct Leaves {
    at::Tensor table;  ///< the leaf of lookups
    at::Tensor other;  ///< the other users' leaf
  };
  std::map<std::size_t, Leaves> tables_;  ///< by bucket
  comm::InFlight in_flight_;
  std::map<std::size_t, std::vector<at::Tensor>> held_;  ///< gradients that a reduction reads
};

}  // namespace predict
CAPSTAN_END_NAMESPACE
