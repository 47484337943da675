#pragma once
// What ranks do together in an update, for rules that look at more of a record than one rank has of it: its matrices
// whole, or sums over it. Library capstan::matrix_rules has rules that are made so; this header is what it is made
// with.
#include <capstan/base/box.h>
#include <capstan/base/export.h>
#include <capstan/comm/group.h>
#include <capstan/layout/footprint.h>
#include <capstan/layout/param.h>
#include <capstan/optimizer/rule.h>

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace optimizer {

/// A record that a rule updates, and the part that each rank of a group has of it.
struct SharedRecord {
  const layout::Param* record = nullptr;
  std::vector<layout::Box> boxes = {};  ///< by position in the group: two are equal or have no element in common
  std::size_t slice = 0;                ///< the number of this rank's part in JointStep::slice, unless its box is empty
  bool on_host = false;                 ///< its master, gradient and states are in host memory
};

/// The records that one rule updates, as the ranks of a group have them. All of them list the same records in the same
/// order; there is one group for each position on pp, and each copy along axes on which gradients are not summed.
struct Sharing {
  std::vector<SharedRecord> records = {};
  int position = 0;  ///< this rank's in the group
  c10::ScalarType master = c10::ScalarType::Float;
  c10::DeviceType device = c10::DeviceType::CPU;  ///< the run's, where the group's tensors are
};

/// What a rank keeps of a state of a record.
struct StatePart {
  const layout::Param* record = nullptr;
  layout::Shape shape = {};  ///< the state's, in checkpoints
  layout::Box box = {};      ///< what this rank keeps of it
  bool is_saved = true;      ///< by this rank: of those that keep the same box one saves it
};

/// Memory that a joint update keeps between steps: parts of states of one name, one after the other. The engine
/// allocates it, zero before the first update, predicts it, and saves it in checkpoints by record.
struct JointState {
  std::string name;  ///< in checkpoints; no state of slices has it
  c10::ScalarType dtype = c10::ScalarType::Float;
  bool on_host = false;  ///< in host memory
  std::vector<StatePart> parts = {};

  std::int64_t elements() const;
};

/// Collectives of one kind and size in an update.
struct JointCalls {
  std::string operation;    ///< "all-to-all", "all-reduce"
  std::int64_t bytes = 0;   ///< on this rank, of one call
  std::int64_t number = 0;  ///< calls
};

/// What a joint update costs this rank, besides its states.
struct JointCost {
  std::vector<layout::Footprint> memory = {};  ///< the most at once, freed when run() ends: `when` is "update"
  double flops = 0;                            ///< operations of matrix products
  std::vector<JointCalls> calls = {};
};

/// What a joint update works with in one step. Called on the training thread.
class JointStep {
 public:
  virtual ~JointStep();
  /// The ranks of Sharing, on the run's device.
  virtual comm::Group& group() const = 0;
  /// The step's scalars for slices on the device or, where the host waits for them, in host memory.
  virtual const Update& update(bool on_host) = 0;
  /// Views of this rank's part of a record (SharedRecord::slice): parameters before this update, gradients in any
  /// dtype, states. Where they are in host memory, the host waits for the gradient.
  virtual Slice slice(std::size_t number) = 0;
  /// Group::all_to_all, beside what the current stream computes; on CPU it has ended when this returns. `out` and `in`
  /// may be read, written and freed once it was waited for.
  virtual std::unique_ptr<comm::Pending> start_all_to_all(const at::Tensor& out, const at::Tensor& in,
                                                          const std::vector<std::int64_t>& out_counts,
                                                          const std::vector<std::int64_t>& in_counts,
                                                          std::string_view label) = 0;
};

/// A rule's joint update: Rule::joint makes it for its records. An Error ends the run, with the plugin's name.
class JointUpdate {
 public:
  virtual ~JointUpdate();
  /// Does run() update the record? Then apply() gets no slice of it. False for those of other rules.
  virtual bool takes(const layout::Param& record) const = 0;
  /// The same every time.
  virtual std::vector<JointState> states() const { return {}; }
  virtual JointCost cost() const = 0;
  /// Updates this rank's parts of the records that it takes, and leaves them as they are where the step is skipped.
  /// Called once a step, by all ranks of the group, when gradients are summed and before apply() gets other slices.
  /// `states`: by states(), [elements] each. On a GPU all that it queues is on the current stream, or has been waited
  /// for; masters in host memory are updated when it returns, so the next forward does not overlap with that.
  virtual void run(JointStep& step, const std::vector<at::Tensor>& states) = 0;
};

}  // namespace optimizer
CAPSTAN_END_NAMESPACE
