#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>
#include <capstan/comm/group.h>
#include <capstan/optimizer/rule.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "strategy/matrix_plan.h"

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// A state of a whole matrix that this rank owns (optimizer::MatrixState).
struct OwnedMatrixState {
  const layout::Param* record;
  const optimizer::MatrixState* spec;
  layout::Shape shape;  ///< of all matrices of the record: its dimensions before the last two, then the state's
  layout::Box box;      ///< this matrix's
  at::Tensor value;     ///< [box.numel()], a view
  int copy = 0;         ///< position on the record's local axes, along which values differ; the engine sets it
};

/// Updates records whose matrices a rule needs whole (optimizer::Grain::matrix), round by round: each rank updates its
/// states and sends the rule's parts of matrices to their owners, the owners compute, and each rank gets its parts of
/// the results back and applies them. Whole matrices are on the device, also where masters are in host memory. All of
/// it is queued on the current stream; nothing but states stays allocated after a round.
class MatrixUpdate {
 public:
  MatrixUpdate(std::vector<MatrixPlan> plans, std::shared_ptr<comm::Group> group);
  /// The slice of this number (SharedRecord::slice): all of the record's box, with master, gradient of any dtype,
  /// states and copy, as views.
  using SliceOf = std::function<optimizer::Slice(std::size_t)>;
  /// Called once a step, by all ranks; returns when masters in host memory have been updated.
  void run(const SliceOf& slice_of, const optimizer::Update& update);
  /// Zero before the first update.
  std::vector<OwnedMatrixState> states();
  /// Those that are allocated.
  const std::vector<std::pair<at::Tensor, bool>>& held() const { return held_; }

 private:
  void allocate();
  std::vector<MatrixPlan> plans_;
  std::shared_ptr<comm::Group> group_;
  bool any_on_host_ = false;
  bool is_allocated_ = false;
  std::vector<std::pair<at::Tensor, bool>> held_;  ///< each batch's states, in order, and whether on the host
};

}  // namespace strategy
CAPSTAN_END_NAMESPACE
