#pragma once
#include <capstan/base/box.h>
#include <capstan/base/export.h>
#include <capstan/layout/mesh.h>

#include <cstdint>
#include <optional>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace layout {

/// Shards one dimension over the product of some axes by torch.chunk's rule: with n rows on W ranks, position r holds
/// [min(r·c, n), min((r+1)·c, n)) with c = ceil(n / W). So the last ranks may hold fewer rows, or none.
struct Cut {
  std::int64_t dim = 0;
  std::vector<Axis> axes;  ///< the first varies slowest
  /// How many neighbouring positions hold the same part: of W ranks, r counts as position r / copies of W / copies.
  /// (Fewer key heads than ranks: each is held by several.) Divides the product of the axes' sizes.
  std::int64_t copies = 1;
  bool operator==(const Cut&) const = default;
};

/// The positions on an axis whose ranks hold a tensor; all others hold nothing of it.
struct Presence {
  Axis axis = Axis::pp;
  std::vector<int> positions;  ///< ascending
  bool operator==(const Presence&) const = default;
};

/// How a logical tensor is sharded over the mesh. Cuts apply in order: a later one on the same dimension shards what
/// an earlier one left (first tp, then data). Ranks that differ only on axes without a cut hold the same box. An axis
/// is used by at most one cut.
struct Layout {
  std::vector<Cut> cuts;
  /// Where it is at all, on an axis that no cut uses; nothing: everywhere.
  std::optional<Presence> only = {};

  /// Does this rank hold anything, if its box is not empty?
  bool holds(const Mesh& mesh, int rank) const;

  /// What `rank` holds of a tensor of this shape; may be empty. One that it does not hold has size 0 in every
  /// dimension.
  Box box(const Shape& shape, const Mesh& mesh, int rank) const;
  /// Is `rank` the first of the ranks that hold its box? Exactly one holder of each element is: the one that norms and
  /// checkpoints use.
  bool counts(const Mesh& mesh, int rank) const;
  /// This layout with one more cut after the others.
  Layout with(Cut cut) const;
  bool operator==(const Layout&) const = default;
};

}  // namespace layout
CAPSTAN_END_NAMESPACE
