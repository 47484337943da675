#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/group.h>
#include <capstan/layout/box.h>
#include <capstan/layout/param.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// A strategy's own tensor by name, zeros at the first call; kept from step to step and saved in checkpoints. The shape
/// and dtype may not change.
using StateOf = std::function<at::Tensor(const std::string& name, at::IntArrayRef shape, c10::ScalarType dtype)>;

/// Part of a record inside a bucket's flat gradient.
struct BucketPart {
  const layout::Param* record = nullptr;
  std::int64_t offset = 0;  ///< first element in Bucket::gradient
  std::int64_t numel = 0;
};

/// Gradients that are reduced together: those of one or more units, or of one tied weight.
struct Bucket {
  std::string name;  ///< "blocks.3"
  /// This rank's gradients [n], in the dtype of sums: of this micro-step, or accumulated since the last reduction. n is
  /// the same on all ranks. Scratch: may be overwritten.
  at::Tensor gradient;
  /// Where the sum over `group` is written (not added): [n], or if gradients are sharded [n / group.size()], the piece
  /// at group.rank() · (n / group.size()). May be `gradient` itself.
  at::Tensor out;
  comm::Group& group;
  std::vector<BucketPart> parts;
  std::int64_t micro_step = 0;
  bool last = true;  ///< the step's last reduction of this bucket
  StateOf state;
};

/// A record's box as this rank updates it.
struct StepPart {
  const layout::Param* record = nullptr;
  layout::Box box;
  at::Tensor master;                ///< [box.numel()] writable view
  std::vector<at::Tensor> moments;  ///< the rule's state, [box.numel()] each, writable views
};

/// What after_step() sees of an optimizer step.
struct Step {
  std::int64_t number = 0;  ///< from 0
  bool last = false;        ///< of the run
  at::Tensor finite;        ///< 0-dim bool: the update was made
  std::vector<StepPart> parts;
  /// The group along one axis, on the run's device; dp spans ep too, which is a data axis for dense parameters.
  std::function<comm::Group&(layout::Axis)> group;
  StateOf state;
};

/// What a strategy does once a bucket or once a step. One object a rank and run.
class StepHooks {
 public:
  virtual ~StepHooks();
  /// Sums bucket.gradient over bucket.group into bucket.out. Only called for the axis that the strategy claims with
  /// gradient_reduction_point, once for each bucket and reduction, in backward, with the engine's stream current.
  /// Every rank must make the same calls in the same order.
  virtual void reduce(Bucket& /*bucket*/, layout::Axis /*axis*/) {}
  /// After the update, before compute copies are made from the masters. On the training thread.
  virtual void after_step(Step& /*step*/) {}
};

}  // namespace strategy
CAPSTAN_END_NAMESPACE
