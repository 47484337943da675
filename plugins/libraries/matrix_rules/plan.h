#pragma once
// Which rank owns which matrix that a rule needs whole, and what parts of matrices cross for it: numbers that the
// update and the prediction share (rounds.h).
#include <capstan/matrix_rules/matrix_rule.h>
#include <capstan/optimizer/joint.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace capstan::matrix_rules {

/// A record whose matrices a rule needs whole.
struct WholeRecord {
  optimizer::SharedRecord shared;
  WholeSpec spec;
};

/// Those of the records that a rule shares with other ranks.
std::vector<WholeRecord> whole_records(const MatrixRule& rule, const optimizer::Sharing& sharing);

/// `inner` of the record's matrix `index`, or of something that each of its matrices has, as a box of all of them.
layout::Box box_of(const layout::Param& record, std::int64_t index, const layout::Box& inner);

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
  std::size_t slice = 0;   ///< optimizer::SharedRecord::slice
  std::int64_t begin = 0;  ///< its first element in the slice
  layout::Box box = {};    ///< of the record, one matrix of it
  int owner = 0;           ///< position in the group
  WholePart whole;         ///< where it is at the owner
  bool on_host = false;    ///< its master is

  std::int64_t elements() const { return whole.rect.numel(); }
  bool is_mine() const { return owner == whole.rank; }
  /// Can the rule read and write it where it is in its matrix, on this rank?
  bool is_in_place() const { return is_mine() && whole.rect.cols == whole.record->shape.back(); }
};

/// Neighbouring matrices of one shape in a round.
struct WholeBatch {
  std::vector<const layout::Param*> records;
  std::vector<std::int64_t> indices = {};  ///< each matrix's among its record's
  std::vector<MatrixState> states = {};    ///< what the rule keeps for each
  bool on_host = false;                    ///< its masters and these states are
  std::int64_t begin = 0;
  std::int64_t elements = 0;
  std::int64_t work_bytes = 0;  ///< what the rule takes besides
  double work = 0;              ///< floating-point operations for all of them
};

/// Elements that cross between this rank and each other one.
struct PartCounts {
  std::vector<std::int64_t> own;     ///< of this rank's parts, by owner
  std::vector<std::int64_t> others;  ///< of parts of this rank's matrices, by the rank that has them
};

/// Matrices that are whole in one dtype, and what brings them to their owners and back.
struct MatrixRound {
  c10::ScalarType dtype = c10::ScalarType::Float;
  PartCounts to_owners, back;            ///< what ranks give, and all parts
  std::vector<WholeBatch> batches = {};  ///< the matrices that this rank owns
  std::vector<OwnPart> own = {};         ///< this rank's parts, by owner
  std::vector<WholePart> others = {};    ///< parts on other ranks of this rank's matrices, by rank
  bool exchanges = false;                ///< some rank has a part that is another one's

  std::int64_t elements() const;  ///< of this rank's matrices
};

/// In the order in which they are updated; `position` is this rank's. All ranks plan the same exchange: owners are
/// ranks that have a part of the matrix, chosen so that the sums of WholeSpec::work are about equal; a round has
/// matrices of about one size, or one matrix. `most`: elements that an owner has whole at once, where no single matrix
/// has more.
std::vector<MatrixRound> plan_matrices(const std::vector<WholeRecord>& records, int position, std::int64_t most);

/// What an update does with a round, in this order.
enum class MatrixPhase {
  begin,      ///< updates states, and sends parts to the owners
  arrive,     ///< waits for them: matrices are whole
  compute,    ///< calls the rule
  give_back,  ///< sends results, and applies those of this rank's own matrices, which are then freed
  end         ///< waits for the other results and applies them
};
/// Calls `run` for each phase of each round, in the order in which an update goes through them: while a round is
/// computed, the next one's parts travel to their owners and the results of the one before travel back.
void each_phase(const std::vector<MatrixRound>& rounds,
                const std::function<void(MatrixPhase, const MatrixRound&)>& run);

/// The most memory that an update takes for rounds at once, freed at its end.
struct MatrixBytes {
  std::int64_t device = 0;
  std::int64_t host = 0;  ///< parts of matrices whose masters are in host memory
};
MatrixBytes bytes_of(const std::vector<MatrixRound>& rounds);
/// What an update makes this rank do for whole matrices.
struct MatrixWork {
  double flops = 0;             ///< of the rule, for the matrices that this rank owns
  std::int64_t sent_parts = 0;  ///< bytes of this rank's parts in rounds that exchange parts
  std::int64_t exchanges = 0;   ///< such rounds: in each, parts go to the owners and come back
};
MatrixWork work_of(const std::vector<MatrixRound>& rounds);

}  // namespace capstan::matrix_rules
