#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>
#include <capstan/comm/group.h>
#include <capstan/optimizer/joint.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/side_stream.h"

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

using JointUpdateList = std::vector<std::unique_ptr<optimizer::JointUpdate>>;

/// Bytes of the states that these updates keep on this rank or, with `only_saved`, that it writes to checkpoints.
struct JointStateBytes {
  std::int64_t device = 0;
  std::int64_t host = 0;
};
JointStateBytes state_bytes(const JointUpdateList& updates, bool only_saved);
/// The most memory that they take besides. They run one after the other: of what has one name the largest counts.
std::vector<layout::Footprint> memory_of(const JointUpdateList& updates);

/// What this rank keeps of a state of a joint update, for one record (optimizer::JointState).
struct KeptJointState {
  std::string name;
  optimizer::StatePart part;
  at::Tensor value;  ///< [part.box.numel()], a view
  int copy = 0;      ///< position on the record's local axes, along which values differ; the engine sets it
};

/// The joint updates of a rank's rules, with their states and the group of their ranks.
class JointUpdates {
 public:
  /// `side` must outlive it; exchanges run there.
  JointUpdates(JointUpdateList updates, std::shared_ptr<comm::Group> group, const comm::SideStream& side);
  /// Does one of them update the record?
  bool take(const layout::Param& record) const;
  /// The slice of this number (optimizer::JointStep::slice).
  using SliceOf = std::function<optimizer::Slice(std::size_t)>;
  /// Called once a step, by all ranks; returns when masters in host memory have been updated.
  void run(const SliceOf& slice_of, const optimizer::Update& update);
  /// Zero before the first update.
  std::vector<KeptJointState> states();
  /// Calls visit(state, on_host) for each state that is allocated.
  void each_held(const std::function<void(const at::Tensor&, bool)>& visit) const;

 private:
  struct State {
    optimizer::JointState spec;
    at::Tensor value;  ///< undefined before the first update
  };
  struct Joint {
    std::unique_ptr<optimizer::JointUpdate> update;
    std::vector<State> states;
  };
  void allocate();

  std::vector<Joint> joints_;
  std::shared_ptr<comm::Group> group_;
  const comm::SideStream& side_;
};

}  // namespace strategy
CAPSTAN_END_NAMESPACE
