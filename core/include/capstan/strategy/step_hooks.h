#pragma once
#include <capstan/base/box.h>
#include <capstan/base/export.h>
#include <capstan/comm/group.h>
#include <capstan/layout/param.h>

#include <ATen/core/Tensor.h>
#include <c10/core/TensorOptions.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// A record's box as this rank updates it.
struct StepPart {
  const layout::Param* record = nullptr;
  layout::Box box;
  at::Tensor master;  ///< [box.numel()] writable view
  /// The optimizer's states that have the masters' dtype and an element for each of the master's: writable views.
  std::vector<at::Tensor> moments;
};

/// A strategy's own tensors by name, zeros when first asked for; kept from step to step and saved in checkpoints.
/// `options` give dtype and device: the run's if they name none, and host memory is at::kCPU. One name has one shape,
/// dtype and device for the whole run. A name has no '/'.
class State {
 public:
  virtual ~State();
  /// A tensor of this rank's own. Each rank saves its own; on another mesh, own_state.h says what becomes of it.
  virtual at::Tensor tensor(const std::string& name, at::IntArrayRef shape, const at::TensorOptions& options) = 0;
  /// A tensor that belongs to the part's record: [part.box.numel()]. It must have the same values on all ranks that
  /// hold this box, also where their masters differ. A checkpoint has each element once, and a run that resumes on
  /// another mesh or with another sharding gets its boxes of it.
  virtual at::Tensor of_part(const StepPart& part, const std::string& name, const at::TensorOptions& options) = 0;
  /// Has this name been asked for, or did a checkpoint bring it? The same on all ranks.
  virtual bool has(const std::string& name) const = 0;
};

/// Part of a record inside a bucket's flat gradient.
struct BucketPart {
  const layout::Param* record = nullptr;
  std::int64_t offset = 0;  ///< first element in Bucket::gradient
  std::int64_t numel = 0;
};

/// Gradients that are reduced together: those of one or more units, or of one tied weight.
struct Bucket {
  std::string name;  ///< "blocks.3"
  /// This rank's gradients [n] in the dtype of sums: this micro-step's, or those accumulated since the last reduction.
  /// n is the same on all ranks. Scratch: may be overwritten.
  at::Tensor gradient;
  /// Where the sum over `group` is written (not added): [n], or if gradients are sharded [n / group.size()], the piece
  /// at group.rank() · (n / group.size()). May be `gradient` itself.
  at::Tensor out;
  comm::Group& group;
  std::vector<BucketPart> parts;
  std::int64_t micro_step = 0;
  bool last = true;        ///< the step's last reduction of this bucket
  State* state = nullptr;  ///< this bucket's; tensor() only
};

/// What a strategy sees between two optimizer steps.
struct StepContext {
  std::int64_t number = 0;                   ///< the last one that was made, from 0; -1: none
  bool last = false;                         ///< the run's last step
  at::Tensor finite;                         ///< 0-dim bool: after_step()'s update was made
  c10::Device device{c10::DeviceType::CPU};  ///< the run's
  std::vector<StepPart> parts;               ///< all trainable records
  /// The group along one axis, on the run's device; dp spans ep too, which is a data axis for dense parameters.
  std::function<comm::Group&(layout::Axis)> group;
  /// The same ranks in a communicator of this strategy's own, for tensors on the run's device or on CPU: a collective
  /// that was started there (Group::start_all_reduce) may be under way for several steps. Made at the first call for
  /// an axis and device, which all ranks make at the same place: in begin().
  std::function<comm::Group&(layout::Axis, c10::Device)> own_group;
  State* state = nullptr;
};

/// A number of each step, for metrics.jsonl and monitors.
struct Figure {
  std::string name;  ///< name of a column, say "underflow"
  at::Tensor sum;    ///< 0-dim float64 on the run's device: this rank's in the step. The ranks' are added up …
  at::Tensor count;  ///< … and divided by the sum of these; where that is 0 the figure is
};

/// What a strategy does once a bucket or once a step. One object a rank and run. All but reduce() are called on the
/// training thread, on all ranks alike, so that each may make collectives.
class StepHooks {
 public:
  virtual ~StepHooks();
  /// Sums bucket.gradient over bucket.group into bucket.out. Only called for the axis that the strategy claims with
  /// gradient_reduction_point, once for each bucket and reduction, in backward, with the engine's stream current.
  /// Every rank must make the same calls in the same order.
  virtual void reduce(Bucket& /*bucket*/, layout::Axis /*axis*/) {}
  /// Once, before the first step: masters are filled, or with moments and state restored from a checkpoint. Masters may
  /// be written.
  virtual void begin(StepContext& /*step*/) {}
  /// Asked once a step, when its micro-steps are queued on the device: what has been counted there since the last time.
  /// The same names on all ranks and in all steps. Nothing may wait for the device: the numbers travel with the step's
  /// own.
  virtual std::vector<Figure> figures() { return {}; }
  /// After the update, before compute copies are made from the masters, which may be written.
  virtual void after_step(StepContext& /*step*/) {}
  /// Before a checkpoint takes masters, moments and state: what is under way is waited for and put into the state. A
  /// run that saves must compute what one does that does not save: masters and moments may not be written.
  virtual void before_save(StepContext& /*step*/) {}
  /// Writes to the masters what evaluation, generation and the final weights (and so their export) shall see. Only
  /// called for the strategy that claims evaluation_weights_point; core puts the masters back afterwards, bit for bit.
  /// Checkpoints hold the masters themselves. State may not be written.
  virtual void evaluation_weights(StepContext& /*step*/) {}
};

}  // namespace strategy
CAPSTAN_END_NAMESPACE
