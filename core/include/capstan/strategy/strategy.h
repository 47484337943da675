#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>
#include <capstan/layout/mesh.h>
#include <capstan/nn/model.h>
#include <capstan/strategy/claims.h>
#include <capstan/strategy/unit_hooks.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// What is known of the run before anything is allocated.
struct Facts {
  layout::Mesh mesh;
  int rank = 0;
  nn::ModelFacts model;
  std::int64_t micro_batch = 1;
  std::int64_t accumulation = 1;
  std::string precision;
  std::string device;  ///< "cpu", "cuda"
};

/// How the shard engine keeps each role of the parameters along the data axes: cut among the ranks, or whole on
/// each. Data that a strategy fills in; the engine asks nothing else and knows no strategy's name.
struct ShardPolicy {
  bool shard_param = false;
  bool shard_grad = false;
  bool shard_optim = false;
  /// Gathered parameters are freed after a unit's forward and gathered again for its backward.
  bool reshard_after_forward = true;
  std::string owner;  ///< the strategy that set it; empty: nobody did
};

/// What a strategy may use while it places a unit on the mesh.
struct Placement {
  layout::Mesh mesh;
  int rank = 0;
  /// The group of the ranks that share all other coordinates; made on first use, the same on all ranks.
  std::function<std::shared_ptr<comm::Group>(const std::vector<layout::Axis>&)> group;
};

/// A strategy plugin acts in fixed phases, whatever the order in the file; each method does nothing by default.
///
///   mesh, claim, check   before anything is allocated, also in `capstan check`
///   structure            on logical shapes: may change the model's layers (adapters)
///   place                sets records' compute layouts and fills layers' slots, unit by unit
///   shard                sets how parameters, gradients and optimizer state are cut along the data axes
///   wrap                 after parameters are there: hooks around a unit; placed inside the shard engine's own
class Strategy {
 public:
  virtual ~Strategy();
  virtual void mesh(layout::MeshSpec&) {}
  virtual void claim(Claims&) const {}
  virtual void check(const Facts&, Diagnostics&) const {}
  virtual void structure(std::vector<std::unique_ptr<nn::Unit>>&) {}
  virtual void place(nn::Unit&, const Placement&) {}
  virtual void shard(ShardPolicy&) {}
  virtual std::unique_ptr<UnitHooks> wrap(nn::Unit&) { return nullptr; }
  /// Should the runner recompute this unit in backward?
  virtual bool recompute(const nn::Unit&, std::size_t /*index*/) { return false; }
};

}  // namespace strategy
CAPSTAN_END_NAMESPACE
