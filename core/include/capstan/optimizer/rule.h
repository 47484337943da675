#pragma once
#include <capstan/base/box.h>
#include <capstan/base/export.h>
#include <capstan/nn/weight.h>

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
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
  /// [n] WholeSpec::dtype: these elements of a matrix that one rank is to have whole. Undefined where the record's
  /// matrices need not be whole, and in begin() where a rank with the same elements gives them.
  at::Tensor part = {};
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
  record,  ///< a rank's box of one record, never in parts
  /// The same, and the matrices of the records that the rule names (Rule::whole_spec) whole on one rank, which computes
  /// something of them that all ranks with parts of them get: see Rule::begin.
  matrix
};

/// A tensor that a rule keeps for each whole matrix, on the rank that owns it: a preconditioner, a basis. Apart from
/// that it is as the states of slices are.
struct MatrixState {
  std::string name;  ///< in checkpoints; no state of slices has it
  c10::ScalarType dtype = c10::ScalarType::Float;
  layout::Shape shape;  ///< for one matrix
  bool operator==(const MatrixState&) const = default;
};

/// What a rule says of a record whose matrices must be whole. The last two dimensions are a matrix, the ones before
/// count matrices: of [experts, rows, cols] each expert's is one.
struct WholeSpec {
  c10::ScalarType dtype = c10::ScalarType::Float;  ///< in which matrices cross and are computed
  double work = 1;         ///< floating-point operations for one matrix: ranks get about equal sums of it
  std::int64_t bytes = 0;  ///< memory that Rule::whole takes for one matrix at most, besides the matrix: predicted
  std::vector<MatrixState> states = {};
};

/// Whole matrices of one shape that this rank owns.
struct Matrices {
  std::vector<const layout::Param*> records;  ///< each one's; a record with several matrices comes several times
  at::Tensor value;                           ///< [n, rows, cols] WholeSpec::dtype, on the run's device, contiguous
  std::vector<at::Tensor> state = {};  ///< by WholeSpec::states, [n, …] of its shape, zero before the first update
};

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

  /// Where the grain is a matrix: whether this record's matrices must be whole; nothing: apply() alone updates its
  /// boxes. `master` is the masters' dtype, and whole matrices are on a `device`, wherever masters are. The same on all
  /// ranks; such a record's states have no blocks.
  virtual std::optional<WholeSpec> whole_spec(const layout::Param& record, c10::ScalarType master,
                                              c10::DeviceType device) const;
  /// For records that have a whole_spec() an update is three calls, and a slice a rank's box of one matrix. begin()
  /// updates states by gradients and writes what of the box is to be whole to Slice::part, where that is defined; the
  /// parts become whole matrices, each on one rank; whole() computes with them, in place; apply() gets the result in
  /// Slice::part and no gradient, and updates the master. Few matrices come at once, and while some cross between ranks
  /// others are computed: a rule may not rely on the order in which it gets different matrices' calls.
  virtual void begin(std::vector<Slice>& slices, const Update& update);
  virtual void whole(const Matrices& matrices, const Update& update);

  /// For records that have a state of blocks: what all states of a record's box mean, as [n] float32 tensors, and the
  /// states that mean these values, written to `state`. A run that resumes with boxes that divide blocks in another way
  /// than the saved run's gets its states so. Both on CPU.
  virtual std::vector<at::Tensor> unpacked(const layout::Param& record, const std::vector<at::Tensor>& state) const;
  virtual void pack(const layout::Param& record, const std::vector<at::Tensor>& values,
                    const std::vector<at::Tensor>& state) const;
};

}  // namespace optimizer
CAPSTAN_END_NAMESPACE
