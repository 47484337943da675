#pragma once
#include <capstan/base/box.h>
#include <capstan/base/export.h>
#include <capstan/layout/layout.h>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace layout {

/// How a parameter is initialised when no file has it.
struct Init {
  enum class Kind { normal, uniform, zeros, ones, constant };
  Kind kind = Kind::zeros;
  double mean = 0;  ///< normal's mean; constant's value
  double std = 0;   ///< normal's standard deviation; uniform is in [-std √3, std √3)

  static Init normal(double std, double mean = 0) { return {Kind::normal, mean, std}; }
  static Init uniform(double std) { return {Kind::uniform, 0, std}; }
  static Init zeros() { return {}; }
  static Init ones() { return {Kind::ones, 1, 0}; }
  static Init constant(double value) { return {Kind::constant, value, 0}; }
};

/// What a parameter is used as. Optimizers treat some uses apart.
enum class Usage {
  layer,    ///< in a layer of the model
  table,    ///< an embedding, whose rows are looked up, also if a head uses it too
  head,     ///< the matrix of the vocabulary's scores
  adapter,  ///< of an adapter
  buffer,   ///< numbers that are never trained, in float32 at least whatever the run computes in, and so in files
};

/// Where and how one role of a parameter is stored: what there is of it besides the compute copy.
struct RoleStorage {
  Layout layout;
  c10::ScalarType dtype = c10::ScalarType::Float;
  c10::Device device{c10::DeviceType::CPU};
};

/// The record of one parameter, which the shard engine, loading, checkpoints, norms, export and memory prediction
/// share. A model makes it; placement fills `compute`, then data sharding the roles; from then on it
/// does not change. Every role's layout is `compute` with or without further cuts along the data axes.
struct Param {
  std::string name;  ///< stable and logical ("h.0.attn.q.weight"), the same whatever the layout
  Shape shape;       ///< the logical tensor's
  /// The Hugging Face module that holds it ("model.layers.0.self_attn.q_proj"), where it is part of one tensor of the
  /// model's files; set by core before structure().
  std::string module;
  bool trainable = true;
  bool decay = true;           ///< weight decay applies
  Usage usage = Usage::layer;  ///< set by the layer or the strategy that owns it
  Init init;
  /// Axes whose ranks see different samples: {replicate, dp, ep} for dense parameters, {replicate, dp} for experts.
  std::vector<Axis> data_axes = layout::data_axes;
  /// Data axes on which a strategy keeps gradients `local`: they are not summed there, so replicas may differ. Set in
  /// `place`; the same for all trainable records.
  std::vector<Axis> local_axes;

  /// Other axes (tp) on which this rank's gradient is a partial sum (DTensor's Partial), as those of norms under
  /// sequence parallelism: the shard engine sums it over the ranks that hold the same box. Set in `place`.
  std::vector<Axis> partial_axes;

  /// Dimensions that may be sharded over data ranks, the preferred one first. Experts name ff after their number, since
  /// there may be fewer experts than ranks.
  std::vector<std::int64_t> shard_dims{0};

  /// The data axes along which this parameter's gradient is summed, without `replicate`: its shards' group.
  std::vector<Axis> shard_axes() const;

  /// How many neighbours along partial_axes hold this rank's box, itself included: the box's gradient is their sum.
  std::int64_t partial_ranks(const Mesh& mesh) const;

  Layout compute;     ///< the rank's box after tp, ep and pp
  RoleStorage param;  ///< the parameter itself
  RoleStorage grad;   ///< its gradient
  RoleStorage optim;  ///< optimizer state

  std::int64_t numel() const { return layout::numel(shape); }
  /// `compute` sharded once more over the ranks along shard_axes(), in the first of shard_dims that divides evenly, or
  /// else in the last.
  Layout sharded(const Mesh& mesh) const;
};

}  // namespace layout
CAPSTAN_END_NAMESPACE
