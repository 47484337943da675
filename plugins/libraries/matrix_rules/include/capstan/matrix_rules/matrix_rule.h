#pragma once
#include <capstan/optimizer/joint.h>
#include <capstan/optimizer/rule.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace capstan::matrix_rules {

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
  std::int64_t bytes = 0;  ///< memory that whole() takes for one matrix at most, besides the matrix: predicted
  std::vector<MatrixState> states = {};
};

/// Whole matrices of one shape that this rank owns.
struct Matrices {
  std::vector<const layout::Param*> records;  ///< each one's; a record with several matrices comes several times
  at::Tensor value;                           ///< [n, rows, cols] WholeSpec::dtype, on the run's device, contiguous
  std::vector<at::Tensor> state = {};  ///< by WholeSpec::states, [n, …] of its shape, zero before the first update
};

/// A rank's box of one matrix.
struct Part : optimizer::Slice {
  /// [n] WholeSpec::dtype: these elements of the whole matrix, next to the master. In begin() undefined where a rank
  /// with the same elements gives them.
  at::Tensor part = {};
};

/// A rule that needs matrices whole: each of them on one rank, which computes something of it that all ranks with parts
/// of it get. The other records are apply()'s alone, as any rule's. It works with any sharding, also where masters are
/// in host memory.
///
///     class Mine : public capstan::matrix_rules::MatrixRule { … };
///     CAPSTAN_OPTIMIZER("mine", …)   // LIBRARIES capstan::matrix_rules
class MatrixRule : public optimizer::Rule {
 public:
  /// Elements of matrices that a rank has whole at once, or one matrix if that has more.
  static constexpr std::int64_t usual_most_whole = std::int64_t{1} << 25;

  explicit MatrixRule(std::int64_t most_whole = usual_most_whole) : most_whole_(most_whole) {}
  optimizer::Grain grain() const final { return optimizer::Grain::record; }

  /// Whether this record's matrices must be whole; nothing: apply() alone updates its boxes. `master` is the masters'
  /// dtype, and whole matrices are on a `device`, wherever masters are. The same on all ranks. Never asked of records
  /// with one dimension. The record's states have no blocks.
  virtual std::optional<WholeSpec> whole_spec(const layout::Param& record, c10::ScalarType master,
                                              c10::DeviceType device) const = 0;
  /// An update of records that have a whole_spec() is three calls. begin() updates states by gradients and writes what
  /// of each box is to be whole to Part::part, where that is defined; it may read masters too, which are as they were
  /// before this update. The parts become whole matrices, each on one rank. whole() computes with them, in place.
  /// finish() gets the result in Part::part and no gradient, and updates the master. All three leave everything as it
  /// is where update.skip is 1. Few matrices come at once, and while some cross between ranks others are computed: a
  /// rule may not rely on the order in which it gets different matrices' calls.
  virtual void begin(std::vector<Part>& parts, const optimizer::Update& update) = 0;
  virtual void whole(const Matrices& matrices, const optimizer::Update& update) = 0;
  virtual void finish(std::vector<Part>& parts, const optimizer::Update& update) = 0;

  std::unique_ptr<optimizer::JointUpdate> joint(const optimizer::Sharing& sharing) final;
  std::string why_useless(const std::vector<const layout::Param*>& records) const final;

 private:
  std::int64_t most_whole_;
};

}  // namespace capstan::matrix_rules
