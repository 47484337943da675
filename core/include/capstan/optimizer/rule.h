#pragma once
#include <capstan/base/box.h>
#include <capstan/base/export.h>
#include <capstan/nn/weight.h>

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace optimizer {

/// A tensor that a rule keeps for every slice that it updates. The engine allocates it, predicts its memory, moves it
/// to host memory with the masters where they are offloaded, and saves it in checkpoints.
struct StateSpec {
  std::string name;  ///< in checkpoints; a rule that changes its names cannot resume from earlier ones
  /// Nothing: the masters'.
  std::optional<c10::ScalarType> dtype = {};
  /// How many consecutive elements of the slice share one element of the state; the last block may be short. With more
  /// than one, the rule's grain is a record, and blocks are those of the record in row-major order, unless a rank's box
  /// would divide one: then every rank counts its blocks from the begin of its own box (Rule::unpacked).
  std::int64_t block = 1;
};

/// What a rule updates at once: all that this rank has of a weight, or its box of one record (Rule::grain). All tensors
/// are 1-dimensional, contiguous and on one device (the host's where optimizer state is offloaded).
struct Slice {
  const nn::Weight* weight = nullptr;
  /// The record, and this rank's box of it in row-major order, unless the rule's grain is an element. Else null: the
  /// weight's records one after the other, perhaps with padding, which is zero in all tensors. A rule must keep it so:
  /// its update of a zero parameter with a zero gradient is zero.
  const layout::Param* record = nullptr;
  layout::Box box = {};
  double lr = 0;                  ///< this step's learning rate for these parameters
  double weight_decay = 0;        ///< 0 where parameters are not decayed
  at::Tensor master;              ///< [n] what is updated, in the masters' dtype
  at::Tensor grad;                ///< [n] summed over all data ranks, times Update::grad_scale; the masters' dtype
  std::vector<at::Tensor> state;  ///< by Rule::states(): [n], or [n / block] rounded up; zero before the first update
  at::Tensor copy = {};           ///< [n] compute dtype, a copy of the updated master (Rule::is_fused); undefined: none
};

/// One optimizer step. The tensors are 0-dim on the slices' device, so that the host need not wait for it.
struct Update {
  at::Tensor count;       ///< float64: updates done, this one included, skipped ones not
  at::Tensor grad_scale;  ///< float32: gradients are to be divided by it: clipping and loss scale together
  at::Tensor skip;        ///< float32: 1 where a gradient was not finite, so nothing may change; else 0
};

/// What a rule gets as one slice.
enum class Grain {
  /// All that a rank has of a weight, which may be given in parts: each element's update depends only on that element.
  element,
  record  ///< a rank's box of one record, never in parts
};

class JointUpdate;
struct Sharing;

/// How gradients update parameters: what a plugin of the kind `optimizer` implements. The engine cuts the model into
/// slices, and the rule sees nothing of sharding, offloading, checkpoints or graphs.
///
/// Called on the training thread or on the engine's update thread, never on both at once. An Error ends the run on all
/// ranks, with the plugin's name.
class Rule {
 public:
  virtual ~Rule();
  /// The state tensors for a record's slices, the same in every run: one record may have others than the next. `check`
  /// calls it too, to predict memory. Where the grain is an element, all records of a weight have the same states.
  virtual std::vector<StateSpec> states(const layout::Param& record) const = 0;
  virtual Grain grain() const { return Grain::element; }
  /// It writes Slice::copy itself, in the same pass, and reads gradients of other dtypes than the masters'. Other rules
  /// get no copy to write, and gradients in the masters' dtype.
  virtual bool is_fused() const { return false; }
  /// Updates these slices, in place, and leaves everything as it is where update.skip is 1. An offloaded step calls it
  /// once a bucket, others once for all.
  virtual void apply(std::vector<Slice>& slices, const Update& update) = 0;

  /// What ranks that have parts of one record do together for it (optimizer/joint.h); nothing: apply() alone updates
  /// what the rule is given. Asked where the grain is a record, of a run once and of `check` several times, before
  /// memory is allocated. What it returns may refer to the rule and to the records, but not to `sharing`.
  virtual std::unique_ptr<JointUpdate> joint(const Sharing& sharing);
  /// Why a run refuses a rule that is to train these records: it would act on nothing. Empty: it would not.
  virtual std::string why_useless(const std::vector<const layout::Param*>& records) const;

  /// For records that have a state of blocks: what all states of a record's box mean, as [n] float32 tensors, and the
  /// states that mean these values, written to `state`. A run that resumes with boxes that divide blocks in another way
  /// than the saved run's gets its states so. Both on CPU.
  virtual std::vector<at::Tensor> unpacked(const layout::Param& record, const std::vector<at::Tensor>& state) const;
  virtual void pack(const layout::Param& record, const std::vector<at::Tensor>& values,
                    const std::vector<at::Tensor>& state) const;
};

}  // namespace optimizer
CAPSTAN_END_NAMESPACE
