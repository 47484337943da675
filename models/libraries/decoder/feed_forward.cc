#include "feed_forward.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <cmath>
#include <utility>

#include "records.h"

namespace capstan::decoder {
namespace {

using layout::Init;

nn::RouterWeights router_of(const Spec& s, const std::string& block) {
  const auto count = s.mixture.count, hidden = s.hidden_size;
  const auto router = block + s.names.router;
  nn::RouterWeights made{matrix_of(router + ".weight", {count, hidden}, s.init_std)};
  if (s.mixture.router_bias) made.bias = vector_of(router + ".bias", count, Init::zeros());
  if (s.mixture.router.correction)
    made.correction = vector_of(router + "." + s.names.router_correction, count, Init::zeros());
  if (!s.mixture.router.scaled) return made;
  made.input_scale = vector_of(block + s.names.router_scale, hidden, Init::ones());
  made.expert_scale = vector_of(block + s.names.expert_scale, count, Init::ones());
  return made;
}

nn::Experts::Weights experts_of(const Spec& s, const std::string& block) {
  const auto count = s.mixture.count, hidden = s.hidden_size, ff = s.ff_dim;
  const auto experts = block + s.names.experts;
  nn::Experts::Weights made{matrix_of(experts + ".gate_up_proj", {count, 2, ff, hidden}, s.init_std),
                            matrix_of(experts + ".down_proj", {count, hidden, ff}, s.init_std)};
  if (!s.mixture.expert_biases) return made;
  made.gate_up_bias = weight_with({nn::record(experts + ".gate_up_proj_bias", {count, 2, ff}, Init::zeros(), false)});
  made.down_bias = weight_with({nn::record(experts + ".down_proj_bias", {count, hidden}, Init::zeros(), false)});
  return made;
}

nn::RouterKind router_kind(const Spec& s) {
  const auto& m = s.mixture;
  nn::RouterKind kind;
  kind.experts_per_token = m.per_token;
  kind.sum_to_one = m.sum_to_one;
  kind.sigmoid = m.router.sigmoid;
  kind.groups = m.router.groups;
  kind.groups_per_token = m.router.groups_per_token;
  kind.scale = m.router.scale;
  if (m.router.scaled) {
    kind.norm_epsilon = s.norm_epsilon;
    kind.input_factor = 1 / std::sqrt(static_cast<double>(s.hidden_size));
  }
  return kind;
}

nn::LinearWeights shared_up(const Spec& s, const std::string& file) {
  const auto width = s.mixture.shared_dim;
  const auto module = file + s.names.shared + ".";
  const auto& parts = s.names.expert_parts;
  return linear_of(
      {{module + parts.at(0), module + parts.at(1)}, {{width}, {width}}, s.hidden_size, false, s.init_std});
}

nn::LinearWeights shared_down(const Spec& s, const std::string& file) {
  const auto module = cat(file, s.names.shared, ".", s.names.expert_parts.at(2));
  return linear_of({{module}, {{s.hidden_size}}, s.mixture.shared_dim, false, residual_std(s)});
}

nn::LinearWeights dense_up(const Spec& s, std::int64_t width, const std::string& file) {
  std::vector<std::string> up;
  for (const auto& module : s.names.up) up.push_back(file + module);
  const std::vector<layout::Shape> features(up.size(), {width});
  return linear_of({up, features, s.hidden_size, s.mlp_bias, s.init_std});
}

nn::LinearWeights dense_down(const Spec& s, std::int64_t width, const std::string& file) {
  return linear_of({{file + s.names.down}, {{s.hidden_size}}, width, s.mlp_bias, residual_std(s)});
}

// nn::Mlp with a function of the model's own between its products, whose names are the same.
class FunctionMlp : public FeedForward {
 public:
  FunctionMlp(nn::Layer& parent, const Spec& s, const std::string& file, nn::LinearWeights up, nn::LinearWeights down)
      : FeedForward(parent, "mlp"),
        up_(*this, "linear_fc1", nn::WeightSplit::columns, std::move(up.weight), std::move(up.bias)),
        activation_(s.activation(*this, file)),
        down_(*this, "linear_fc2", nn::WeightSplit::rows, std::move(down.weight), std::move(down.bias)) {
    CAPSTAN_ASSERT(!s.mlp.gated && s.names.up.size() == 1);
  }
  at::Tensor forward(const at::Tensor& x) const override { return down_.forward(activation_->forward(up_.forward(x))); }

 private:
  nn::Linear up_;
  std::unique_ptr<Activation> activation_;
  nn::Linear down_;
};

}  // namespace

SharedExpert::SharedExpert(nn::Layer& parent, const Spec& spec, const std::string& file)
    : Layer(parent, "shared_expert"), mlp_(*this, spec.mlp, shared_up(spec, file), shared_down(spec, file)) {
  if (!spec.mixture.shared_gate) return;
  auto gate = linear_of({{file + spec.names.shared_gate}, {{1}}, spec.hidden_size, false, spec.init_std});
  gate_.emplace(*this, "linear_gate", nn::WeightSplit::none, std::move(gate.weight), nullptr);
}

at::Tensor SharedExpert::forward(const at::Tensor& x) const {
  const auto y = mlp_.forward(x);
  return gate_ ? gate_->forward(x).sigmoid() * y : y;
}

BesideNorms::BesideNorms(nn::Layer& block, const Spec& spec, const std::string& file)
    : after_dense(block, "post_norm_dense", spec, in_block(file, spec.names.dense_post_norm, spec.norm_after)),
      before_experts(block, "norm_experts", spec, in_block(file, spec.names.experts_norm, spec.norm_before)),
      after_experts(block, "post_norm_experts", spec, in_block(file, spec.names.experts_post_norm, spec.norm_after)) {}

BlockFeedForward::BlockFeedForward(nn::Layer& block, const Spec& spec, std::int64_t index, const std::string& file) {
  if (spec.feed_forward) own_ = spec.feed_forward(block, index, file);
  if (own_) return;
  const auto& mixture = spec.mixture;
  if (!mixture.is_in(index) || mixture.beside_dense)
    add_dense(block, spec, mixture.count > 0 ? mixture.dense_ff_dim : spec.ff_dim, file);
  if (!mixture.is_in(index)) return;
  mixture_.emplace(block, nn::Mixture::Weights{router_of(spec, file), experts_of(spec, file)}, router_kind(spec),
                   mixture.experts);
  if (mixture.shared_dim > 0) shared_.emplace(block, spec, file);
  if (!mixture.beside_dense) return;
  CAPSTAN_ASSERT(mlp_ && !spec.residual_after_norm);  // its norms are within the layer
  beside_.emplace(block, spec, file);
}

void BlockFeedForward::add_dense(nn::Layer& block, const Spec& spec, std::int64_t width, const std::string& file) {
  auto up = dense_up(spec, width, file), down = dense_down(spec, width, file);
  if (spec.activation) {
    own_ = std::make_unique<FunctionMlp>(block, spec, file, std::move(up), std::move(down));
  } else {
    mlp_.emplace(block, spec.mlp, std::move(up), std::move(down));
  }
}

at::Tensor BlockFeedForward::forward(const at::Tensor& x, nn::RecomputeContext* kept) const {
  if (own_) return own_->forward(x);
  if (!mixture_) return mlp_->forward(x);
  const auto mixed = mixture_->forward(x, *kept);
  return shared_ ? mixed + shared_->forward(x) : mixed;
}

at::Tensor BlockFeedForward::forward_beside(const at::Tensor& normed, const at::Tensor& states,
                                            nn::RecomputeContext& kept) const {
  const auto view = [this](const at::Tensor& x) { return beside_->before_experts.forward(x); };
  auto mixed = mixture_->forward(states, kept, view);
  if (shared_) mixed = mixed + shared_->forward(view(states));
  return beside_->after_dense.forward(mlp_->forward(normed)) + beside_->after_experts.forward(mixed);
}

}  // namespace capstan::decoder
