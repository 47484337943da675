#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/batch.h>
#include <capstan/nn/layers.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// Which experts see each token, and what their results are multiplied with.
struct Routing {
  at::Tensor experts;  ///< [T, k] int64
  at::Tensor weights;  ///< [T, k], x's dtype; each row adds up to 1
};

/// Chooses the k experts of highest probability for each token (Shazeer et al. 2017); weights are the softmax over the
/// chosen, taken in float32 (float64 for float64).
class Router {
 public:
  /// `gate` is a product to one logit an expert.
  Router(Linear gate, std::int64_t experts_per_token);
  /// x [T, hidden]. A pure function: computed again it chooses the same.
  Routing forward(const at::Tensor& x) const;

  /// What the load-balancing loss needs to know of all layers: how often each expert was chosen [E], the sum of its
  /// probabilities [E], and how many tokens were counted (0-dim). Zeros to begin with, on `like`'s device.
  std::vector<at::Tensor> no_load(const at::Tensor& like) const;
  /// Adds this layer's. Positions that are no tokens of a sample (Batch::real) are left out.
  void add_load(std::vector<at::Tensor>& load, const at::Tensor& x, const Batch& batch) const;

  Linear& gate() { return gate_; }

  /// Where a strategy leaves a rank some of the positions: Batch::real [B, S] -> those of its own.
  CommSlot own_positions;

 private:
  at::Tensor probabilities(const at::Tensor& x) const;
  Linear gate_;
  std::int64_t experts_per_token_;
};

/// Load-balancing loss over all layers' routers (Fedus et al. 2021, equations 4 to 6, with k choices as in
/// transformers' load_balancing_loss_func): E · sum over experts of (choices / tokens) · (mean probability). k when
/// the load is even. 0-dim.
at::Tensor balancing_loss(const std::vector<at::Tensor>& load);

/// Where the load of all layers' routers becomes their loss.
class LoadBalance {
 public:
  /// As balancing_loss. 0-dim.
  at::Tensor loss(const std::vector<at::Tensor>& load) const;

  /// Where each rank has counted some of the positions: on choices, probabilities and tokens side by side [2 E + 1].
  CommSlot over_positions;
};

/// E gated MLPs, stacked: gate and up [E, 2, ff, hidden] (gate first), down [E, hidden, ff]. Each token is computed by
/// the experts it was routed to, none is dropped.
class Experts {
 public:
  Experts(std::string name, WeightPtr gate_up, WeightPtr down);
  /// x [T, hidden] -> [T, hidden]: the weighted sum of each token's experts.
  at::Tensor forward(const at::Tensor& x, const Routing& routing) const;

  const std::string& name() const { return name_; }
  const WeightPtr& gate_up() const { return gate_up_; }
  const WeightPtr& down() const { return down_; }

  /// The experts at hand on rows [R, hidden] that are sorted by expert: how many rows each has [E] -> [R, hidden].
  using Body = std::function<at::Tensor(const at::Tensor& rows, const at::Tensor& counts)>;
  /// Where a rank holds some of the experts: takes the rows of all, sorted, with counts [E] int64 for all, brings rows
  /// to where their expert is, calls the body there with what arrived (sorted by local expert) and brings results back.
  Slot<at::Tensor(const Body&, const at::Tensor& rows, const at::Tensor& counts)> exchange;
  /// Beside each product of the experts at hand: (its input rows [R, in], its result [R, out], ends [E] int32, the row
  /// behind each expert's last) -> what replaces the result.
  using AdapterSlot = Slot<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)>;
  AdapterSlot gate_up_adapter;
  AdapterSlot down_adapter;
  /// Where ff is split: on x, on the routing's weights (whose gradient is then a part), and on the result.
  CommSlot before;
  CommSlot before_weights;
  CommSlot after;
  /// Where the sequence is split, called by the block: on its states [B, S, hidden] in front of router and experts, so
  /// that they see all positions, and on their result.
  CommSlot enter;
  CommSlot leave;

 private:
  at::Tensor compute(const at::Tensor& rows, const at::Tensor& counts) const;
  std::string name_;
  WeightPtr gate_up_;
  WeightPtr down_;
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
