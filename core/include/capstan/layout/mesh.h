#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <array>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace layout {

/// The mesh's axes, slowest first: neighbouring ranks differ in `tp`.
enum class Axis { pp, dp, ep, tp };
inline constexpr std::array<Axis, 4> all_axes{Axis::pp, Axis::dp, Axis::ep, Axis::tp};
/// "pp", "dp", "ep", "tp".
const char* axis_name(Axis axis);
std::ostream& operator<<(std::ostream& out, Axis axis);

/// Collects the axis sizes that strategies ask for. Nothing is judged before resolve().
class MeshSpec {
 public:
  struct Request {
    Axis axis;
    std::int64_t size;
    std::string who;    ///< "strategy.tensor_parallel"
    std::string where;  ///< "configs/a.toml:12"
  };

  explicit MeshSpec(std::int64_t world_size) : world_size_(world_size) {}
  void set(Axis axis, std::int64_t size, std::string who, std::string where);
  std::int64_t world_size() const { return world_size_; }
  const std::vector<Request>& requests() const { return requests_; }

 private:
  std::int64_t world_size_;
  std::vector<Request> requests_;
};

/// The ranks of a world as a grid pp x dp x ep x tp of numbers; knows nothing of communication.
/// rank = ((pp · DP + dp) · EP + ep) · TP + tp. Immutable.
class Mesh {
 public:
  /// One rank.
  Mesh() = default;
  /// Sizes by axis, in the order of all_axes, each at least 1.
  explicit Mesh(std::array<int, 4> sizes);

  int world_size() const;
  int size(Axis axis) const { return sizes_[static_cast<std::size_t>(axis)]; }
  /// The product of the axes' sizes; 1 for none.
  int size(const std::vector<Axis>& axes) const;
  int coordinate(int rank, Axis axis) const;
  /// Where `rank` stands in ranks_along(axes, rank): the first axis named varies slowest.
  int position(int rank, const std::vector<Axis>& axes) const;
  /// World ranks that share `rank`'s coordinates on all other axes, by position.
  std::vector<int> ranks_along(const std::vector<Axis>& axes, int rank) const;
  /// "world 8 = pp 1 x dp 2 x ep 2 x tp 2".
  std::string arithmetic() const;

 private:
  int stride(Axis axis) const;
  std::array<int, 4> sizes_{1, 1, 1, 1};
};

/// The mesh of world = pp · dp · ep · tp: an axis that nobody asked for has size 1, dp is what is left over.
/// Faults are added (sizes below 1, two sizes for one axis, a world that does not divide, pp other than 1); the
/// mesh returned then is one rank.
Mesh resolve(const MeshSpec& spec, Diagnostics& diagnostics);

}  // namespace layout
CAPSTAN_END_NAMESPACE
