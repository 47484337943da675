#pragma once
#include <capstan/optimizer/joint.h>
#include <capstan/optimizer/rule.h>

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace capstan::matrix_rules {

/// Dimensions of a record over which a sum is not taken, ascending: {0} of a matrix are sums of its rows, none is the
/// sum of all elements.
using Kept = std::vector<std::size_t>;

/// A state with the shape of a sum, such as an average of rows: each rank with a part of the record keeps all of it, in
/// float32, or float64 where masters are. It is small; what has an element for each parameter is a Rule::states().
struct RecordState {
  std::string name;  ///< in checkpoints; no state of slices has it
  Kept keeps = {};
};

/// A rank's box of a record, with what was summed over all of the record. Tensors are where the master is.
struct SummedSlice : optimizer::Slice {
  /// By pass and by SummingRule::sums(): the sizes of the dimensions kept, float32 or, where masters are, float64. Zero
  /// where the step is skipped. Passes that have not been summed yet are missing.
  std::vector<std::vector<at::Tensor>> sums = {};
  std::vector<at::Tensor> record_state = {};  ///< by SummingRule::record_states(), zero before the first update

  /// `all`'s part for this box, of a sum or a state that keeps these dimensions: with size 1 in the others, so that it
  /// goes with tensors that are viewed as box.size.
  at::Tensor here(const at::Tensor& all, const Kept& keeps) const;
};

/// A rule that needs sums over records, of gradients, parameters or what it makes of them: a trust ratio, factored
/// moments. However a record is shared, an element is counted once, and all ranks get the same sums. They are added up
/// by one all-reduce a pass for all records, and on a GPU the host waits for none of it.
///
///     class Mine : public capstan::matrix_rules::SummingRule { … };
///     CAPSTAN_OPTIMIZER("mine", …)   // LIBRARIES capstan::matrix_rules
class SummingRule : public optimizer::Rule {
 public:
  optimizer::Grain grain() const final { return optimizer::Grain::record; }

  /// The sums of a record, by pass: a later pass may sum what depends on the sums of those before it. The same in every
  /// run; none: apply() alone updates the record.
  virtual std::vector<std::vector<Kept>> sums(const layout::Param& record) const = 0;
  virtual std::vector<RecordState> record_states(const layout::Param& record) const;
  /// How many tensors of a slice's size the rule makes at once at most: predicted, for the largest slice.
  virtual std::int64_t working_copies() const { return 2; }

  /// An update of a record that has sums is, for each pass, terms() and summed(), and then finish(). terms() gives what
  /// is to be summed, by the pass's sums: tensors of the slice's size, such as the gradient's squares. Of ranks with
  /// the same box one is asked, so it changes nothing. Gradients come multiplied by update.grad_scale here too, and
  /// masters as they are before the update.
  virtual std::vector<at::Tensor> terms(std::size_t pass, const SummedSlice& slice,
                                        const optimizer::Update& update) const = 0;
  /// Once the pass's sums are there, on each rank with a part of the record: may update states.
  virtual void summed(std::size_t pass, SummedSlice& slice, const optimizer::Update& update);
  /// Updates the master. This and summed() leave everything as it is where update.skip is 1.
  virtual void finish(SummedSlice& slice, const optimizer::Update& update) = 0;
  /// For records without sums: finish(), unless a rule does something else with them.
  void apply(std::vector<optimizer::Slice>& slices, const optimizer::Update& update) override;

  std::unique_ptr<optimizer::JointUpdate> joint(const optimizer::Sharing& sharing) final;
};

}  // namespace capstan::matrix_rules
