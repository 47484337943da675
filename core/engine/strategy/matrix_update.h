#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>
#include <capstan/comm/group.h>
#include <capstan/optimizer/rule.h>

#include <functional>
#include <memory>
#include <vector>

#include "strategy/matrix_plan.h"

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// Updates records whose matrices a rule needs whole (optimizer::Grain::matrix), round by round: each rank updates its
/// states and sends the rule's parts of matrices to their owners, the owners compute, and each rank gets its parts of
/// the results back and applies them. Whole matrices are on the device, also where masters are in host memory. All of
/// it is queued on the current stream; nothing stays allocated after a round.
class MatrixUpdate {
 public:
  MatrixUpdate(std::vector<MatrixPlan> plans, std::shared_ptr<comm::Group> group);
  /// The slice of this number (SharedRecord::slice): all of the record's box, with master, gradient of any dtype,
  /// states and copy, as views.
  using SliceOf = std::function<optimizer::Slice(std::size_t)>;
  /// Called once a step, by all ranks; returns when masters in host memory have been updated.
  void run(const SliceOf& slice_of, const optimizer::Update& update);

 private:
  std::vector<MatrixPlan> plans_;
  std::shared_ptr<comm::Group> group_;
  bool any_on_host_ = false;
};

}  // namespace strategy
CAPSTAN_END_NAMESPACE
