#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace layout {

/// The mesh's axes, slowest first: neighbouring ranks differ in `tp`. Hybrid sharding splits data parallelism in two:
/// `dp` is then the ranks that share one copy of the parameters, `replicate` counts the copies; otherwise it is 1.
/// Ranks along `cp` share their samples' tokens.
enum class Axis { pp, replicate, dp, cp, ep, tp };

/// What is to know of an axis.
struct AxisFacts {
  Axis axis;
  const char* name;
  bool other_samples;    ///< its ranks see different samples
  bool splits_sequence;  ///< its ranks see different tokens of the same samples
  bool sums_gradients;   ///< its ranks' gradients of dense records are parts of one sum
  bool splits_model;     ///< its ranks hold one copy of the model together
};
/// All of them, in their order: whoever tells axes apart asks this table.
inline constexpr std::array axis_table{AxisFacts{Axis::pp, "pp", false, false, false, true},
                                       AxisFacts{Axis::replicate, "replicate", true, false, true, false},
                                       AxisFacts{Axis::dp, "dp", true, false, true, false},
                                       AxisFacts{Axis::cp, "cp", false, true, true, false},
                                       AxisFacts{Axis::ep, "ep", true, false, true, true},
                                       AxisFacts{Axis::tp, "tp", false, false, false, true}};

/// The axes for which this is true; all without a condition.
inline std::vector<Axis> axes_where(bool AxisFacts::*is_true = nullptr) {
  std::vector<Axis> axes;
  for (const auto& facts : axis_table) {
    if (!is_true || facts.*is_true) axes.push_back(facts.axis);
  }
  return axes;
}
inline const std::vector<Axis> all_axes = axes_where();
/// The axes whose ranks see different samples.
inline const std::vector<Axis> sample_axes = axes_where(&AxisFacts::other_samples);
/// The axes along which gradients of dense records are summed.
inline const std::vector<Axis> data_axes = axes_where(&AxisFacts::sums_gradients);
/// The axes over which one copy of the model is split.
inline const std::vector<Axis> model_axes = axes_where(&AxisFacts::splits_model);
/// Is `axis` one of them?
inline bool has_axis(const std::vector<Axis>& axes, Axis axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}
inline const char* axis_name(Axis axis) { return axis_table[static_cast<std::size_t>(axis)].name; }
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

  explicit MeshSpec(std::int64_t world_size, std::int64_t ranks_per_node = 0)
      : world_size_(world_size), ranks_per_node_(ranks_per_node > 0 ? ranks_per_node : world_size) {}
  void set(Axis axis, std::int64_t size, std::string who, std::string where);
  /// Splits the data-parallel ranks into copies of `size` ranks each; 0: as many as a node has.
  void split_data(std::int64_t size, std::string who, std::string where);
  std::int64_t world_size() const { return world_size_; }
  std::int64_t ranks_per_node() const { return ranks_per_node_; }
  const std::vector<Request>& requests() const { return requests_; }
  const std::vector<Request>& splits() const { return splits_; }

 private:
  std::int64_t world_size_;
  std::int64_t ranks_per_node_;
  std::vector<Request> requests_;
  std::vector<Request> splits_;
};

/// The ranks of a world as a grid pp x replicate x dp x cp x ep x tp of numbers; knows nothing of communication.
/// rank = ((((pp · REPLICATE + replicate) · DP + dp) · CP + cp) · EP + ep) · TP + tp. Immutable.
class Mesh {
 public:
  /// One rank.
  Mesh() = default;
  /// Sizes of axes, each at least 1, which the others have.
  explicit Mesh(std::initializer_list<std::pair<Axis, int>> sizes);

  int world_size() const;
  int size(Axis axis) const { return sizes_[static_cast<std::size_t>(axis)]; }
  /// The product of the axes' sizes; 1 for none.
  int size(const std::vector<Axis>& axes) const;
  int coordinate(int rank, Axis axis) const;
  /// The index of `rank` in ranks_along(axes, rank): the first axis named varies slowest.
  int position(int rank, const std::vector<Axis>& axes) const;
  /// World ranks that share `rank`'s coordinates on all other axes, by position.
  std::vector<int> ranks_along(const std::vector<Axis>& axes, int rank) const;
  /// "world 8 = dp 2 x ep 2 x tp 2", or "… dp 4 (replicate 2 x shard 2) x …"; with pp and cp only where they are more
  /// than 1.
  std::string arithmetic() const;
  /// An explanation if the model is split: "ep 2 x tp 2 = 4 ranks hold the model once, and what is left over goes
  /// to data parallelism: dp = 8 / 4 = 2", and with ep another line: how the data-parallel size comes of both. Empty if
  /// it is not.
  std::string left_over() const;

 private:
  int stride(Axis axis) const;
  std::vector<int> sizes_ = std::vector<int>(axis_table.size(), 1);
};

/// The mesh of world = pp · dp · cp · ep · tp: an axis that no strategy asked for has size 1, dp is what is left over.
/// Faults are added (sizes below 1, two sizes for one axis, a world that does not divide); the mesh returned then is
/// one rank.
Mesh resolve(const MeshSpec& spec, Diagnostics& diagnostics);

}  // namespace layout
CAPSTAN_END_NAMESPACE
