#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/box.h>
#include <capstan/layout/mesh.h>

#include <cstdint>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace layout {

/// Cuts one dimension over the product of some axes by torch.chunk's rule: of n rows on W ranks, position r holds
/// [min(r·c, n), min((r+1)·c, n)) with c = ceil(n / W). So the last ranks may hold less, or nothing.
struct Cut {
  std::int64_t dim = 0;
  std::vector<Axis> axes;  ///< the first varies slowest
  /// Neighbouring positions that hold the same part: of W ranks, r counts as position r / copies of W / copies. (Fewer
  /// key heads than ranks: each is held by several.) Divides the product of the axes' sizes.
  std::int64_t copies = 1;
  bool operator==(const Cut&) const = default;
};

/// How a logical tensor lies on the mesh. Cuts apply in order: a later one on the same dimension cuts what an
/// earlier one left (first tp, then data). Ranks that differ only on axes without a cut share a box. An axis
/// cuts at most once.
struct Layout {
  std::vector<Cut> cuts;

  /// What `rank` holds of a tensor of this shape; may be empty.
  Box box(const Shape& shape, const Mesh& mesh, int rank) const;
  /// The same as a list without empty boxes. Readers of layouts (loading, checkpoints, norms) use this form.
  std::vector<Box> boxes(const Shape& shape, const Mesh& mesh, int rank) const;
  /// Is `rank` the one that counts its elements: the first of those that share them? Of each element's holders,
  /// exactly one counts.
  bool counts(const Mesh& mesh, int rank) const;
  /// This layout and one more cut behind the others.
  Layout with(Cut cut) const;
  bool operator==(const Layout&) const = default;
};

}  // namespace layout
CAPSTAN_END_NAMESPACE
