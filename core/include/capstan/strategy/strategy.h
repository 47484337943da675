#pragma once
#include <capstan/base/box.h>
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>
#include <capstan/layout/file_tensor.h>
#include <capstan/layout/footprint.h>
#include <capstan/layout/mesh.h>
#include <capstan/layout/param.h>
#include <capstan/layout/source.h>
#include <capstan/nn/batch.h>
#include <capstan/nn/codec.h>
#include <capstan/nn/model.h>
#include <capstan/strategy/claims.h>
#include <capstan/strategy/exporter.h>
#include <capstan/strategy/program.h>
#include <capstan/strategy/shard_policy.h>
#include <capstan/strategy/step_hooks.h>
#include <capstan/strategy/unit_hooks.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// A record that is trained, and the box of it whose master a rank updates.
struct UpdatedBox {
  const layout::Param* record = nullptr;
  layout::Box box;
};

/// What is known of the run before anything is allocated.
struct Facts {
  layout::Mesh mesh;
  int rank = 0;
  nn::ModelFacts model;
  std::int64_t micro_batch = 1;  ///< rows of a micro-batch: sequences, where they are not packed
  std::int64_t accumulation = 1;
  std::int64_t sequence_length = 0;  ///< the data's longest sample; known in footprint() only
  std::string precision;
  std::string device;      ///< "cpu", "cuda"
  int gpu_capability = 0;  ///< compute capability of the GPUs, 90 for 9.0; 0: there is none, or it is not known
  std::int64_t ranks_per_node = 1;
  std::int64_t trainable_parameters = 0;  ///< in the whole model after structure(); known in footprint() only
  bool trains = true;                     ///< false: the run only evaluates
  std::vector<UpdatedBox> updated;        ///< this rank's: what StepContext::parts will be; known in footprint() only
  bool saves_checkpoints = false;         ///< the run saves some, with strategies' state
};

/// What a strategy may use while it places a unit on the mesh.
struct Placement {
  layout::Mesh mesh;
  int rank = 0;
  /// The group of the ranks that share all other coordinates; made on first use, the same on all ranks.
  std::function<std::shared_ptr<comm::Group>(const std::vector<layout::Axis>&)> group;
  /// On the meta device: what a rank gets by the tokens' values is taken at its mean, from which a step's time is
  /// predicted; else at what memory shall be there for.
  bool takes_mean_load = false;
};

/// A strategy plugin acts in fixed phases, whatever the order in the file; each method does nothing by default.
///
///   mesh, claim, check   before anything is allocated, also in `capstan check`
///   structure            on logical shapes: may change the model's layers (adapters)
///   place                sets records' compute layouts, fills layers' ports, marks gradients local; unit by unit
///   shard                sets how parameters, gradients and optimizer state are sharded along the data axes
///   wrap, recompute      after parameters are allocated: hooks around a unit; inside the shard engine's own
///   step                 the override points that were claimed, and a hook after each step
///
/// One object is for one model: structure() is called once, and place(), wrap() and the others get the same units,
/// which outlive the object's use. So the object may store facts about units, and never has to undo anything. If core
/// needs another model (`check` runs a micro-step of one on the meta device), it makes other objects from the same
/// options. A model that an objective compares with (objective::ModelSpec) is only placed, by an object of its own: the
/// methods before place() and place() are called, not structure(), wrap(), recompute() or step(), and no record is
/// trained.
///
/// All are called on the training thread. An exception ends the run on all ranks, with the plugin's name and the phase.
class Strategy {
 public:
  virtual ~Strategy();
  virtual void mesh(layout::MeshSpec&) {}
  virtual void claim(Claims&) const {}
  virtual void check(const Facts&, Diagnostics&) const {}
  virtual void structure(std::vector<std::unique_ptr<nn::Unit>>&) {}
  /// Lines for people on what structure() and stages() did, and on options that have no effect; printed with the
  /// model's summary.
  virtual std::vector<std::string> notes() const { return {}; }
  /// The source of values of records that structure() added; null, or a record that the source does not have: they are
  /// initialised. `files` says where the model's own records are in its published files. Called after structure(), by
  /// `check` too: faults of the source are thrown here as Error, not only when it is read.
  virtual std::shared_ptr<layout::Source> values(const layout::FileMap& /*files*/) { return nullptr; }
  /// What writes the run as files of another program; asked after structure(). An object that never had a model may be
  /// asked too, for names: what is installed and could write what a user wants.
  virtual std::vector<std::shared_ptr<const Exporter>> exporters() const { return {}; }
  /// Packed weights of a model's folder that the strategy's codecs (nn::Codec::form) take as they are. Asked before
  /// structure(), and of an object that never has a model, to name the strategy that a folder needs.
  virtual std::vector<nn::PackedForm> packed_forms() const { return {}; }
  virtual void place(nn::Unit&, const Placement&) {}
  /// How the model is cut into stages along the mesh's axis pp, for the strategy that claims step_program_point; asked
  /// once, after structure(). A record is then where its units are. One that units of several positions share is at
  /// each of them, and its gradient is the sum of theirs.
  virtual Stages stages(const std::vector<std::unique_ptr<nn::Unit>>& /*units*/, const layout::Mesh& /*mesh*/) {
    return {};
  }
  /// How the ranks along the mesh's axis cp share the columns of a batch's rows, for the strategy that claims
  /// sequence_cut_point; asked once, after place(), where cp is above 1. It fills nn::Attention::around of every
  /// attention layer.
  virtual nn::SequenceCut cut_sequence(const Placement&) { return {}; }
  virtual void shard(ShardPolicy&) {}
  virtual std::unique_ptr<UnitHooks> wrap(nn::Unit&) { return nullptr; }
  /// Whether the runner recomputes this unit in backward.
  virtual bool recompute(const nn::Unit&, std::size_t /*index*/) { return false; }
  /// Called once a run. Null: nothing to do each step.
  virtual std::unique_ptr<StepHooks> step() { return nullptr; }
  /// Memory that this strategy itself will allocate on a rank: added to the prediction that `check` prints. What it
  /// keeps in State is counted in a run as "NAME state": under the same name both are compared.
  virtual std::vector<layout::Footprint> footprint(const Facts&) const { return {}; }
};

}  // namespace strategy
CAPSTAN_END_NAMESPACE
