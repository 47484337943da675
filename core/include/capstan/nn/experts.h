#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/batch.h>
#include <capstan/nn/layers.h>
#include <capstan/nn/recompute_context.h>
#include <capstan/ops/grouped.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// Says which experts see each token, and what their results are multiplied with.
struct Routing {
  at::Tensor experts;  ///< [T, k] int64
  at::Tensor weights;  ///< [T, k], x's dtype
};

/// How a router chooses and weighs.
struct RouterKind {
  std::int64_t experts_per_token = 1;
  bool sum_to_one = true;  ///< a token's weights are divided by their sum
  bool sigmoid = false;    ///< scores are the logits' sigmoids, each by itself, instead of their softmax (DeepSeek V3)
  /// Experts stand in groups of equal size, and a token's are chosen within its best `groups_per_token`: those
  /// whose two best experts have the largest sum (DeepSeek V3).
  std::int64_t groups = 1;
  std::int64_t groups_per_token = 1;
  double scale = 1;  ///< multiplies the weights, after the division
  /// The gate sees x / sqrt(mean(x²) + this), times RouterWeights::input_scale, times input_factor (Gemma 4); none: x.
  std::optional<double> norm_epsilon = {};
  double input_factor = 1;
};

/// What a router is made of.
struct RouterWeights {
  WeightPtr gate;                    ///< [E, hidden] makes one logit an expert
  WeightPtr bias = nullptr;          ///< [E], added to the logits; null: none, as the following
  WeightPtr correction = nullptr;    ///< [E], added to the scores by which experts are chosen, not to weights
  WeightPtr input_scale = nullptr;   ///< [hidden], multiplies what the gate sees
  WeightPtr expert_scale = nullptr;  ///< [E], multiplies each expert's weights, after all else
};

/// Chooses the k experts of highest score for each token (Shazeer et al. 2017); weights are their scores, divided by
/// their sum or as they are, taken in float32 (float64 for float64).
class Router : public Layer {
 public:
  Router(Layer& parent, std::string name, RouterWeights weights, const RouterKind& kind);
  /// `gate` [E, hidden] makes one logit an expert.
  Router(Layer& parent, std::string name, WeightPtr gate, std::int64_t experts_per_token, bool sum_to_one = true);
  ~Router() override;
  /// x [T, hidden]. Experts are chosen in the first run of a forward, whose `kept` later runs get: rounding must not
  /// send a token elsewhere in backward. Null: chosen now.
  Routing forward(const at::Tensor& x, RecomputeContext* kept = nullptr) const;

  /// What the load-balancing loss needs to know of all layers: how often each expert was chosen [E], the sum of its
  /// probabilities [E], and how many tokens were counted (0-dim). Zeros to begin with, on `like`'s device.
  std::vector<at::Tensor> no_load(const at::Tensor& like) const;
  /// Adds this layer's. Positions that are no tokens of a sample (Batch::real) are left out. `kept` as in forward.
  void add_load(std::vector<at::Tensor>& load, const at::Tensor& x, const Batch& batch,
                RecomputeContext* kept = nullptr) const;
  /// How many of the tokens that forward has chosen and kept each expert computes [E], float64, without padding.
  at::Tensor tokens(const Batch& batch, const RecomputeContext& kept) const;

  Linear& gate() { return gate_; }
  std::int64_t experts_per_token() const { return kind_.experts_per_token; }
  const RouterKind& kind() const { return kind_; }

  /// Where a strategy leaves a rank some of the positions: [B, S, …] -> those of its own. Called in training where the
  /// load is counted, that is by add_load.
  CommPort own_positions{*this, "own_positions"};

 private:
  at::Tensor seen_by_gate(const at::Tensor& x) const;
  at::Tensor probabilities(const at::Tensor& x) const;
  at::Tensor chosen(const at::Tensor& probability, RecomputeContext* kept) const;
  at::Tensor of_own_positions(const at::Tensor& rows, const Batch& batch) const;
  Linear gate_;
  WeightPtr correction_;
  WeightPtr input_scale_;
  WeightPtr expert_scale_;
  RouterKind kind_;
};

/// Load-balancing loss over all layers' routers (Fedus et al. 2021, equations 4 to 6, with k choices as in
/// transformers' load_balancing_loss_func): E · sum over experts of (choices / tokens) · (mean probability). k when
/// the load is even. 0-dim.
at::Tensor balancing_loss(const std::vector<at::Tensor>& load);

/// The model's balancing loss where its micro-batches may be spread over ranks.
class LoadBalance : public Layer {
 public:
  explicit LoadBalance(Layer& parent);
  ~LoadBalance() override;
  /// The load of all layers -> this rank's share of balancing_loss over the whole micro-batch, 0-dim: the data ranks'
  /// shares add up to it, and their gradients to its gradient. On a single rank, the loss itself.
  at::Tensor forward(const std::vector<at::Tensor>& load) const;

  /// Where each rank has counted some of the positions: choices, probabilities and tokens side by side [2 E + 1] ->
  /// their sums over these ranks. Called in each forward of the model's balancing loss.
  CommPort over_positions{*this, "over_positions"};
  /// Where other ranks see other samples: choices of each expert and the number of tokens [E + 1], without gradient ->
  /// their sums over these ranks. Called once a micro-step, after over_positions.
  CommPort counts{*this, "counts"};
};

/// What stands between the two products of an expert.
struct ExpertsKind {
  Activation activation = Activation::silu;  ///< activation(gate) · up
  /// In its place, a model's own: gate and up of rows [R, 2 ff], the gate first, to which the biases are not added yet
  /// -> [R, ff]. On CUDA it may not wait for the device.
  std::function<at::Tensor(const at::Tensor& gate_up, const ops::GroupBiases& biases)> between = {};
};

/// E gated MLPs, stacked: gate and up [E, 2, ff, hidden] (gate first), down [E, hidden, ff]. Each token is computed by
/// the experts it was routed to, none is dropped. Declares on its records that ranks along ep may hold different
/// experts, and that data ranks which cannot share those evenly cut the rows of each expert's matrices.
class Experts : public Layer {
 public:
  /// What experts are made of. Biases [E, 2, ff] and [E, hidden]; null: none.
  struct Weights {
    WeightPtr gate_up;
    WeightPtr down;
    WeightPtr gate_up_bias = nullptr;
    WeightPtr down_bias = nullptr;
  };
  Experts(Layer& parent, std::string name, Weights weights, const ExpertsKind& kind = {});
  Experts(Layer& parent, std::string name, WeightPtr gate_up, WeightPtr down);
  ~Experts() override;
  /// x [T, hidden] -> [T, hidden]: the weighted sum of each token's experts. `kept` as in Router::forward.
  at::Tensor forward(const at::Tensor& x, const Routing& routing, RecomputeContext* kept = nullptr) const;

  const WeightPtr& gate_up() const { return weights_.gate_up; }
  const WeightPtr& down() const { return weights_.down; }
  /// Null: none.
  const WeightPtr& gate_up_bias() const { return weights_.gate_up_bias; }
  const WeightPtr& down_bias() const { return weights_.down_bias; }
  const ExpertsKind& kind() const { return kind_; }

  /// The experts at hand on rows [R, hidden] that are sorted by expert: how many rows each has [E], and their row_ids
  /// [R] -> [R, hidden].
  using Body = std::function<at::Tensor(const at::Tensor& rows, const at::Tensor& counts, const at::Tensor& ids)>;
  /// Makes the rows of all experts [T k, hidden], sorted by expert. What is queued on the device before it is called
  /// need not wait for that.
  using Rows = std::function<at::Tensor()>;
  /// Where a rank holds some of the experts: takes the rows of all with counts [E] int64 for all, brings rows to where
  /// their expert is, with their row_ids where there are any, calls the body there with what arrived (sorted by local
  /// expert) and brings results back. It may keep what a second run needs. Called in every forward.
  Port<at::Tensor(const Body&, const Rows&, const at::Tensor& counts, const at::Tensor& ids, RecomputeContext*)>
      exchange{*this, "exchange"};
  /// For strategies that must know which token a row is: an int64 id of each of the layer's tokens [T], the same on any
  /// layout. Undefined, on all ranks: nothing asks for ids this time. Called in every forward, before exchange.
  Port<at::Tensor()> token_ids{*this, "token_ids"};
  /// Take the places of the two products of the experts at hand, as Linear::multiply does: (rows [R, in], W [E, out,
  /// in], ends [E] int32, the row after each expert's last) -> each row times its expert's matrix [R, out]. Called in
  /// every forward, but where `products` is.
  using MultiplyPort = Port<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)>;
  MultiplyPort gate_up_multiply{*this, "gate_up_multiply"};
  MultiplyPort down_multiply{*this, "down_multiply"};
  /// Takes the place of both and of what is between them. Called in each forward where no adapter and no bias is, and
  /// the gated SiLU stands between them: (rows [R, hidden], W of gate and up [E, 2 ff, hidden], W of down [E, hidden,
  /// ff], ends) -> [R, hidden].
  Port<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&)> products{*this,
                                                                                                        "products"};
  /// Called after each product of the experts at hand: (its input rows [R, in], its result [R, out], ends [E] int32,
  /// the row after each expert's last, row_ids [R]) -> what replaces the result.
  using AdapterPort = Port<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&)>;
  AdapterPort gate_up_adapter{*this, "gate_up_adapter"};
  AdapterPort down_adapter{*this, "down_adapter"};
  /// Where ff is split: on x, on the routing's weights (whose gradient is then a part), and on the result. Called in
  /// every forward, outside of exchange.
  CommPort before{*this, "before"};
  CommPort before_weights{*this, "before_weights"};
  CommPort after{*this, "after"};

 private:
  at::Tensor compute(const at::Tensor& rows, const at::Tensor& counts, const at::Tensor& ids) const;
  // An id for each row, which is a token's at one expert: id of the token · E + expert. Undefined where none is asked
  // for.
  at::Tensor row_ids(const at::Tensor& expert, const at::Tensor& order, std::int64_t copies,
                     std::int64_t experts) const;
  // Do core's own products compute the experts at hand?
  bool has_own_products() const;
  // Are they what `products` computes?
  bool is_plain() const;
  Weights weights_;
  ExpertsKind kind_;
};

/// The feed-forward layer of a mixture: a router and its experts, which see all positions of the states.
class Mixture : public Layer {
 public:
  struct Weights {
    RouterWeights router;
    Experts::Weights experts;
  };
  /// Makes of states at each position what the experts see of them: a norm.
  using View = std::function<at::Tensor(const at::Tensor&)>;
  Mixture(Layer& parent, Weights weights, const RouterKind& router, const ExpertsKind& experts = {});
  ~Mixture() override;
  /// x [B, S, hidden] -> [B, S, hidden]. The router sees x, and so do the experts, or what `view` makes of it.
  at::Tensor forward(const at::Tensor& x, RecomputeContext& kept, const View& view = {}) const;
  /// What a block's forward adds in training: to hidden.expert_tokens, and with `balanced` the router's load to
  /// hidden.sums. `x` and `kept` as forward got them.
  void count(Hidden& hidden, const at::Tensor& x, const Batch& batch, RecomputeContext& kept, bool balanced) const;

  Router& router() { return router_; }
  Experts& experts() { return experts_; }

  /// Where the sequence is split: on the states of this rank's positions, so that router and experts see all of them,
  /// and on their result. Called in every forward.
  CommPort enter{*this, "enter"};
  CommPort leave{*this, "leave"};

 private:
  Router router_;
  Experts experts_;
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
