#pragma once
#include <capstan/matrix_rules/matrix_rule.h>
#include <capstan/optimizer/joint.h>

#include <utility>
#include <vector>

#include "plan.h"

namespace capstan::matrix_rules {

/// Updates records whose matrices a rule needs whole, round by round: each rank updates its states and sends the rule's
/// parts of matrices to their owners, the owners compute, and each rank gets its parts of the results back and applies
/// them. Whole matrices are on the device, also where masters are in host memory. What ranks exchange overlaps with the
/// rule's computation of other rounds (each_phase); nothing but states stays allocated.
class MatrixUpdate final : public optimizer::JointUpdate {
 public:
  MatrixUpdate(MatrixRule& rule, std::vector<MatrixRound> rounds, c10::DeviceType device)
      : rule_(rule), rounds_(std::move(rounds)), device_(device) {}
  bool takes(const layout::Param& record) const override;
  std::vector<optimizer::JointState> states() const override;
  optimizer::JointCost cost() const override;
  void run(optimizer::JointStep& step, const std::vector<at::Tensor>& states) override;

 private:
  MatrixRule& rule_;
  std::vector<MatrixRound> rounds_;
  c10::DeviceType device_;
};

}  // namespace capstan::matrix_rules
