#pragma once
// Which rank owns which matrix that a rule needs whole, and what parts of matrices cross for it: numbers that the
// update and the prediction share (optimizer::Grain::matrix, strategy/matrix_update.h).
#include <capstan/base/export.h>
#include <capstan/optimizer/rule.h>

#include <cstdint>
#include <optional>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// A record whose matrices a rule needs whole, and the part that each rank of a group has of it. All ranks of the group
/// list the same ones in the same order.
struct SharedRecord {
  const layout::Param* record;
  optimizer::Rule* rule;
  optimizer::WholeSpec spec;
  bool on_host;                    ///< masters are
  std::vector<layout::Box> boxes;  ///< by position in the group
  std::size_t slice;               ///< this rank's number of it, if it has a part
};

/// A part of a matrix.
struct Rect {
  std::int64_t row = 0, rows = 0;
  std::int64_t col = 0, cols = 0;
  std::int64_t numel() const { return rows * cols; }
  bool operator==(const Rect&) const = default;
};

/// A part of a matrix that its owner has or gets, where it is in the owner's memory of a round.
struct WholePart {
  int rank = 0;                 ///< the position in the group of the rank that has the part
  const layout::Param* record;  ///< the matrix has its last two dimensions
  std::int64_t begin = 0;       ///< of the matrix
  Rect rect = {};
  bool gives = false;  ///< the rank gives these elements: of the ranks that have them one does

  /// Its elements of the round's matrices, a view.
  at::Tensor of(const at::Tensor& matrices) const;
};

/// This rank's part of a matrix.
struct OwnPart {
  std::size_t slice = 0;   ///< SharedRecord::slice
  std::int64_t begin = 0;  ///< its first element in the slice
  layout::Box box = {};    ///< of the record, one matrix of it
  int owner = 0;           ///< position in the group
  WholePart whole;         ///< where it is at the owner
  bool on_host = false;    ///< its master is

  std::int64_t elements() const { return whole.rect.numel(); }
};

/// Neighbouring matrices of one shape in a round.
struct WholeBatch {
  std::vector<const layout::Param*> records;
  std::vector<std::int64_t> indices = {};           ///< each matrix's among its record's
  std::vector<optimizer::MatrixState> states = {};  ///< what the rule keeps for each
  bool on_host = false;                             ///< its masters and these states are
  std::int64_t begin = 0;
  std::int64_t elements = 0;
  std::int64_t work_bytes = 0;  ///< what the rule takes besides
  double work = 0;              ///< floating-point operations for all of them
};

/// What one exchange brings to their owners and back.
struct MatrixRound {
  std::vector<WholeBatch> batches;  ///< the matrices that this rank owns
  std::vector<OwnPart> own;         ///< this rank's parts, by owner
  std::vector<WholePart> others;    ///< parts on other ranks of this rank's matrices, by rank
  bool exchanges = false;           ///< some rank has a part that is another one's

  std::int64_t elements() const;  ///< of this rank's matrices
};

/// The matrices that one rule has whole in one dtype, in the order in which they are updated.
struct MatrixPlan {
  optimizer::Rule* rule = nullptr;
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<MatrixRound> rounds;
};

/// By rule and dtype; `position` is this rank's. All ranks plan the same exchange: owners are ranks that have a part of
/// the matrix, chosen so that the sums of WholeSpec::work are about equal; a round has matrices of about one size,
/// `most` elements for an owner, or one matrix that has more.
std::vector<MatrixPlan> plan_matrices(const std::vector<SharedRecord>& records, int position, std::int64_t most);

/// The most memory that these rounds take at once, freed at their end.
struct MatrixBytes {
  std::int64_t device = 0;
  std::int64_t host = 0;  ///< parts of matrices whose masters are in host memory
};
MatrixBytes bytes_of(const std::vector<MatrixPlan>& plans);
/// What an update makes this rank do for whole matrices.
struct MatrixWork {
  double flops = 0;             ///< of the rule, for the matrices that this rank owns
  std::int64_t sent_parts = 0;  ///< bytes of this rank's parts in rounds that exchange parts
  std::int64_t exchanges = 0;   ///< such rounds: in each, parts go to the owners and come back
};
MatrixWork work_of(const std::vector<MatrixPlan>& plans);
/// What this rank's states of whole matrices take.
MatrixBytes state_bytes_of(const std::vector<MatrixPlan>& plans);

}  // namespace strategy
CAPSTAN_END_NAMESPACE
