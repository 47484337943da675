#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>
#include <capstan/comm/group.h>
#include <capstan/optimizer/rule.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "comm/side_stream.h"
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
/// the results back and applies them. Whole matrices are on the device, also where masters are in host memory. What
/// ranks exchange is queued on `side`, so that it overlaps with the rule's computation of other rounds (each_phase),
/// all else on the current stream, which has waited for all of it in the end; nothing but states stays allocated.
class MatrixUpdate {
 public:
  /// `side` must outlive it.
  MatrixUpdate(std::vector<MatrixRound> rounds, std::shared_ptr<comm::Group> group, const comm::SideStream& side)
      : rounds_(std::move(rounds)), group_(std::move(group)), side_(side) {}
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
  std::vector<MatrixRound> rounds_;
  std::shared_ptr<comm::Group> group_;
  const comm::SideStream& side_;
  std::vector<std::pair<at::Tensor, bool>> held_;  ///< each batch's states, in order, and whether on the host
};

}  // namespace strategy
CAPSTAN_END_NAMESPACE
