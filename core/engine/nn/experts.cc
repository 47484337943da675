#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/nn/experts.h>
#include <capstan/ops/grouped.h>
#include <capstan/ops/swiglu.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "ops/combine_rows.h"
#include "ops/operator.h"

namespace capstan::nn {
namespace {

RouterKind plain_kind(std::int64_t experts_per_token, bool sum_to_one) {
  RouterKind kind;
  kind.experts_per_token = experts_per_token;
  kind.sum_to_one = sum_to_one;
  return kind;
}

// Scores [T, E] with those of all but a token's best groups at minus infinity.
at::Tensor within_best_groups(const at::Tensor& scores, const RouterKind& kind) {
  const auto grouped = scores.view({scores.size(0), kind.groups, -1});
  const auto two = std::min<std::int64_t>(2, grouped.size(-1));
  const auto best = std::get<0>(grouped.topk(two, -1)).sum(-1);
  const auto chosen = std::get<1>(best.topk(kind.groups_per_token, -1));
  const auto is_out = at::ones_like(best, best.options().dtype(at::kBool)).scatter_(-1, chosen, false);
  return grouped.masked_fill(is_out.unsqueeze(-1), -std::numeric_limits<double>::infinity()).view_as(scores);
}

}  // namespace

Router::Router(Layer& parent, std::string name, RouterWeights weights, const RouterKind& kind)
    : Layer(parent, std::move(name)),
      gate_(*this, this->name(), WeightSplit::none, std::move(weights.gate), std::move(weights.bias)),
      correction_(weights.correction ? own(std::move(weights.correction), Use::states) : nullptr),
      input_scale_(weights.input_scale ? own(std::move(weights.input_scale), Use::states) : nullptr),
      expert_scale_(weights.expert_scale ? own(std::move(weights.expert_scale), Use::states) : nullptr),
      kind_(kind) {
  if (!correction_) return;
  for (auto& record : correction_->records()) {
    record.usage = layout::Usage::buffer;
    record.trainable = false;
    record.decay = false;
  }
}

Router::Router(Layer& parent, std::string name, WeightPtr gate, std::int64_t experts_per_token, bool sum_to_one)
    : Router(parent, std::move(name), {std::move(gate)}, plain_kind(experts_per_token, sum_to_one)) {}

Router::~Router() = default;

at::Tensor Router::seen_by_gate(const at::Tensor& x) const {
  auto seen = kind_.norm_epsilon ? at::rms_norm(x, {x.size(-1)}, {}, *kind_.norm_epsilon) : x;
  if (input_scale_) seen = seen * input_scale_->value();
  return kind_.input_factor == 1 ? seen : seen * kind_.input_factor;
}

// Sigmoids, and probabilities that are corrected, of logits that are computed in float32: rounded ones would choose
// other experts than those of whoever trained the model did.
at::Tensor Router::probabilities(const at::Tensor& x) const {
  const auto type = ops::sum_type(x);
  const auto seen = seen_by_gate(x);
  const auto logits = gate_.forward(kind_.sigmoid || correction_ ? seen.to(type) : seen);
  return kind_.sigmoid ? logits.sigmoid() : at::softmax(logits, -1, type);
}

at::Tensor Router::chosen(const at::Tensor& probability, RecomputeContext* kept) const {
  const auto choose = [&] {
    auto scores = probability.detach();
    if (correction_) scores = scores + correction_->value().detach();
    if (kind_.groups > 1) scores = within_best_groups(scores, kind_);
    return std::get<1>(scores.topk(kind_.experts_per_token, -1, /*largest=*/true, /*sorted=*/!kind_.sigmoid));
  };
  return kept ? kept->once<at::Tensor>(this, choose) : choose();
}

Routing Router::forward(const at::Tensor& x, RecomputeContext* kept) const {
  const auto probability = probabilities(x);
  const auto experts = chosen(probability, kept);
  auto weights = probability.gather(-1, experts);
  if (kind_.sum_to_one) {
    const auto sum = weights.sum(-1, /*keepdim=*/true);
    weights = weights / (kind_.sigmoid ? sum + 1e-20 : sum);  // sigmoids may all be zero
  }
  if (kind_.scale != 1) weights = weights * kind_.scale;
  // A token's experts differ: this gather's gradient adds no two numbers in an order that varies.
  if (expert_scale_) weights = weights * expert_scale_->value().expand_as(probability).gather(-1, experts);
  return {experts, weights.to(x.scalar_type())};
}

std::vector<at::Tensor> Router::no_load(const at::Tensor& like) const {
  const auto experts = gate_.weight()->value().size(0);
  const auto options = like.options().dtype(ops::sum_type(like));
  return {at::zeros({experts}, options), at::zeros({experts}, options), at::zeros({}, options)};
}

// Takes from [T, …] over all positions of the batch those that this rank sees.
at::Tensor Router::of_own_positions(const at::Tensor& rows, const Batch& batch) const {
  if (!own_positions) return rows;
  return own_positions(rows.view({batch.tokens.size(0), batch.tokens.size(1), -1})).flatten(0, 1);
}

void Router::add_load(std::vector<at::Tensor>& load, const at::Tensor& x, const Batch& batch,
                      RecomputeContext* kept) const {
  const auto probability = probabilities(x);
  // [T, 1]: 1 for a token of a sample, 0 for padding.
  const auto counted = batch.real.defined() ? of_own_positions(batch.real.reshape({-1, 1}), batch).to(probability)
                                            : at::ones({x.size(0), 1}, probability.options());
  const auto experts =
      kept && own_positions ? of_own_positions(kept->get<at::Tensor>(this), batch) : chosen(probability, kept);
  const auto choice = at::zeros_like(probability.detach()).scatter_(-1, experts, 1);
  load[0] = load[0] + (choice * counted).sum(0);
  load[1] = load[1] + (probability * counted).sum(0);
  load[2] = load[2] + counted.sum();
}

at::Tensor Router::tokens(const Batch& batch, const RecomputeContext& kept) const {
  const at::NoGradGuard no_grad;
  const auto& chosen = kept.get<at::Tensor>(this);
  const auto experts = gate_.weight()->value().size(0);
  // Padding chooses one more expert, which is not counted.
  const auto each = batch.real.defined() ? chosen.where(batch.real.reshape({-1, 1}), experts) : chosen;
  return ops::group_counts(each.flatten(), experts + 1).narrow(0, 0, experts).to(at::kDouble);
}

at::Tensor balancing_loss(const std::vector<at::Tensor>& load) {
  const auto experts = static_cast<double>(load[0].size(0));
  return (load[0] * load[1]).sum() * experts / load[2].square().clamp_min(1);
}

LoadBalance::LoadBalance(Layer& parent) : Layer(parent, "balance") {}
LoadBalance::~LoadBalance() = default;

at::Tensor LoadBalance::forward(const std::vector<at::Tensor>& load) const {
  const auto experts = load[0].size(0);
  auto all = load;
  if (over_positions) {
    const auto sums = over_positions(at::cat({load[0], load[1], load[2].view({1})}));
    all = {sums.narrow(0, 0, experts), sums.narrow(0, experts, experts), sums[2 * experts]};
  }
  if (!counts) return balancing_loss(all);
  const auto sums = counts(at::cat({all[0], all[2].view({1})}).detach());
  return (sums.narrow(0, 0, experts) * all[1]).sum() * static_cast<double>(experts) /
         sums[experts].square().clamp_min(1);
}

namespace {

// Ranks along ep hold different experts, whose gradients therefore are not summed there. `rows`: the dimension that
// data ranks cut where they do not share the experts evenly.
void declare_experts(Weight& weight, std::int64_t rows) {
  for (auto& record : weight.records()) {
    std::erase(record.data_axes, layout::Axis::ep);
    auto& dims = record.shard_dims;
    if (std::find(dims.begin(), dims.end(), rows) == dims.end()) dims.push_back(rows);
  }
}

}  // namespace

// NOLINTNEXTLINE(modernize-pass-by-value): one copy of a small struct a layer.
Experts::Experts(Layer& parent, std::string name, Weights weights, const ExpertsKind& kind)
    : Layer(parent, std::move(name)), weights_(std::move(weights)), kind_(kind) {
  own(weights_.gate_up, Use::split);
  own(weights_.down, Use::split);
  declare_experts(*weights_.gate_up, 2);
  declare_experts(*weights_.down, 1);
  if (weights_.gate_up_bias) declare_experts(*own(weights_.gate_up_bias, Use::split), 2);
  if (weights_.down_bias) own(weights_.down_bias, Use::states);
}

Experts::Experts(Layer& parent, std::string name, WeightPtr gate_up, WeightPtr down)
    : Experts(parent, std::move(name), Weights{std::move(gate_up), std::move(down)}) {}

Experts::~Experts() = default;

namespace {

at::Tensor gated(const at::Tensor& gate_up, const ops::GroupBiases& biases, const ExpertsKind& kind) {
  if (kind.between) return kind.between(gate_up, biases);
  const auto sums = ops::add_group_biases(gate_up, biases);
  if (kind.activation == Activation::silu) return ops::swiglu(sums);
  const auto parts = sums.chunk(2, -1);
  return activated(kind.activation, parts[0]) * parts[1];
}

// `bias` is a weight [E, …] or null, and of the rows each expert has `counts`.
ops::GroupBiases biases_of(const WeightPtr& bias, const at::Tensor& rows, const at::Tensor& counts) {
  if (!bias) return {};
  const auto group = at::repeat_interleave(counts.to(rows.device(), /*non_blocking=*/true),
                                           /*output_size=*/std::optional<std::int64_t>(rows.size(0)));
  return {bias->value().flatten(1), group};
}

// [T, E]: a token's weight of each expert, 0 for those that it was not routed to.
at::Tensor weight_of_each(const Routing& routing, std::int64_t experts) {
  return at::zeros({routing.experts.size(0), experts}, routing.weights.options())
      .scatter(-1, routing.experts, routing.weights);
}

}  // namespace

bool Experts::has_own_products() const {
  return !products && !gate_up_multiply && !down_multiply && !gate_up_adapter && !down_adapter;
}

bool Experts::is_plain() const {
  const bool is_gated_silu = !kind_.between && kind_.activation == Activation::silu;
  return is_gated_silu && !gate_up_bias() && !down_bias() && !gate_up_adapter && !down_adapter;
}

at::Tensor Experts::compute(const at::Tensor& rows, const at::Tensor& counts, const at::Tensor& ids) const {
  auto ends = counts.cumsum(0).to(at::kInt);
  // Core's own products may have them in host memory; a plugin that fills a port gets them where the rows are.
  if (!has_own_products() && ends.device() != rows.device()) ends = ends.to(rows.device(), /*non_blocking=*/true);
  const auto gate_and_up = gate_up()->value().flatten(1, 2);
  if (products && is_plain()) return products(rows, gate_and_up, down()->value(), ends);
  const auto multiply = [&](const MultiplyPort& port, const at::Tensor& x, const at::Tensor& weight) {
    return port ? port(x, weight, ends) : ops::grouped_linear(x, weight, ends);
  };
  auto product = multiply(gate_up_multiply, rows, gate_and_up);
  if (gate_up_adapter) product = gate_up_adapter(rows, product, ends, ids);
  const auto inner = gated(product, biases_of(gate_up_bias(), rows, counts), kind_);
  const auto result = multiply(down_multiply, inner, down()->value());
  return down_adapter ? down_adapter(inner, result, ends, ids) : result;
}

at::Tensor Experts::row_ids(const at::Tensor& expert, const at::Tensor& order, std::int64_t copies,
                            std::int64_t experts) const {
  const auto tokens = token_ids ? token_ids() : at::Tensor();
  if (!tokens.defined()) return {};
  return (tokens * experts).repeat_interleave(copies).add(expert).index_select(0, order);
}

namespace {

// Each token's results by their weights, as ATen computes it.
at::Tensor weighted_sum(const at::Tensor& results, const at::Tensor& back, const at::Tensor& order,
                        const at::Tensor& weights) {
  const auto each = ops::permute_rows(results, back, order).view({weights.size(0), weights.size(1), -1});
  return (each * weights.unsqueeze(-1)).sum(1);
}

}  // namespace

at::Tensor Experts::forward(const at::Tensor& x, const Routing& routing, RecomputeContext* kept) const {
  const auto input = before ? before(x) : x;
  const auto weights = before_weights ? before_weights(routing.weights) : routing.weights;
  const auto copies = routing.experts.size(1);
  const auto expert = routing.experts.flatten();
  const auto experts = gate_up()->records().front().shape.front();
  const auto sorted = ops::group_rows(expert, experts);
  const Rows rows = [&] { return ops::permute_rows(input, sorted.order, sorted.place, copies); };
  const auto ids = row_ids(expert, sorted.order, copies, experts);
  const Body body = [this](const at::Tensor& own, const at::Tensor& own_counts, const at::Tensor& own_ids) {
    return compute(own, own_counts, own_ids);
  };
  const auto results = exchange ? exchange(body, rows, sorted.counts, ids, kept) : body(rows(), sorted.counts, ids);
  const auto y = results.is_cpu() ? weighted_sum(results, sorted.place, sorted.order, weights)
                                  : ops::combine_rows(results, {sorted.place, sorted.order}, weights);
  auto sum = after ? after(y) : y;
  // A mixture adds them where ranks may share its positions.
  if (!down_bias() || dynamic_cast<const Mixture*>(parent())) return sum;
  return sum + weight_of_each(routing, experts).mm(down_bias()->value());
}

Mixture::Mixture(Layer& parent, Weights weights, const RouterKind& router, const ExpertsKind& experts)
    : Layer(parent, "mixture"),
      router_(*this, "router", std::move(weights.router), router),
      experts_(*this, "experts", std::move(weights.experts), experts) {}

Mixture::~Mixture() = default;

at::Tensor Mixture::forward(const at::Tensor& x, RecomputeContext& kept, const View& view) const {
  const auto all = enter ? enter(x) : x;
  const auto tokens = all.flatten(0, 1);
  const auto routing = router_.forward(tokens, &kept);
  const auto mixed = experts_.forward(view ? view(all).flatten(0, 1) : tokens, routing, &kept).view_as(all);
  auto y = leave ? leave(mixed) : mixed;
  const auto& bias = experts_.down_bias();
  if (!bias) return y;
  // A result's bias counts as often as the result: the sum is one product with all biases, which ranks that share
  // experts or their rows have whole.
  const auto weights = weight_of_each(routing, bias->value().size(0)).unflatten(0, {all.size(0), all.size(1)});
  return y + at::matmul(router_.own_positions ? router_.own_positions(weights) : weights, bias->value());
}

// The router computes its probabilities again, outside of the region that may be recomputed and returns one tensor: a
// small product next to the experts'.
void Mixture::count(Hidden& hidden, const at::Tensor& x, const Batch& batch, RecomputeContext& kept,
                    bool balanced) const {
  if (!batch.training) return;
  hidden.expert_tokens.push_back(router_.tokens(batch, kept));
  if (!balanced) return;
  if (hidden.sums.empty()) hidden.sums = router_.no_load(x);
  router_.add_load(hidden.sums, x.flatten(0, 1), batch, &kept);
}

}  // namespace capstan::nn
