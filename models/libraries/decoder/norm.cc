#include "norm.h"

#include <ATen/ATen.h>

#include <utility>

#include "records.h"

namespace capstan::decoder {

using layout::Init;

Init initial_factor(const Spec& spec) {
  return spec.norm_factor == nn::RmsNorm::Factor::weight ? Init::ones() : Init::zeros();
}

namespace {

// nn::LayerNorm's without a bias (Cohere).
class UnbiasedLayerNorm : public Norm {
 public:
  UnbiasedLayerNorm(nn::Layer& parent, const std::string& name, nn::WeightPtr weight, double epsilon)
      : Norm(parent, name), weight_(own(std::move(weight), nn::Use::states)), epsilon_(epsilon) {}
  at::Tensor forward(const at::Tensor& x) const override {
    return at::layer_norm(x, {x.size(-1)}, weight_->value(), {}, epsilon_);
  }

 private:
  nn::WeightPtr weight_;
  double epsilon_;
};

// nn::LayerNorm's that multiplies by 1 + weight, added in float32 (Nemotron).
class OnePlusLayerNorm : public Norm {
 public:
  OnePlusLayerNorm(nn::Layer& parent, const std::string& name, const std::string& module, const Spec& s)
      : Norm(parent, name),
        weight_(own(vector_of(module + ".weight", s.hidden_size, initial_factor(s)), nn::Use::states)),
        bias_(own(vector_of(module + ".bias", s.hidden_size, Init::zeros()), nn::Use::states)),
        epsilon_(s.norm_epsilon) {}
  at::Tensor forward(const at::Tensor& x) const override {
    const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const at::Tensor factor = weight_->value().to(type) + 1;
    return at::layer_norm(x.to(type), {x.size(-1)}, factor, bias_->value().to(type), epsilon_).to(x.scalar_type());
  }

 private:
  nn::WeightPtr weight_;
  nn::WeightPtr bias_;
  double epsilon_;
};

}  // namespace

StatesNorm::StatesNorm(nn::Layer& parent, const std::string& name, const Spec& spec, const std::string& module) {
  if (module.empty()) return;
  if (spec.own_norm) own_ = spec.own_norm(parent, name, module);
  if (own_) return;
  const bool adds_one = spec.norm_factor == nn::RmsNorm::Factor::one_plus_weight;
  if (adds_one && spec.norm == Spec::Norm::layer && spec.norm_bias)
    own_ = std::make_unique<OnePlusLayerNorm>(parent, name, module, spec);
  if (own_) return;
  auto weight = vector_of(module + ".weight", spec.hidden_size, initial_factor(spec));
  if (spec.norm == Spec::Norm::rms) {
    rms_.emplace(parent, name, std::move(weight), spec.norm_epsilon, nn::Use::states, spec.norm_factor);
  } else if (!spec.norm_bias) {
    own_ = std::make_unique<UnbiasedLayerNorm>(parent, name, std::move(weight), spec.norm_epsilon);
  } else {
    auto bias = vector_of(module + ".bias", spec.hidden_size, Init::zeros());
    layer_.emplace(parent, name, std::move(weight), std::move(bias), spec.norm_epsilon);
  }
}

at::Tensor StatesNorm::forward(const at::Tensor& x) const {
  if (own_) return own_->forward(x);
  if (rms_) return rms_->forward(x);
  return layer_ ? layer_->forward(x) : x;
}

nn::SumAndNorm StatesNorm::forward_sum(const at::Tensor& x, const at::Tensor& y) const {
  if (rms_) return rms_->forward_sum(x, y);
  if (layer_) return layer_->forward_sum(x, y);
  const auto sum = y.defined() ? x + y : x;
  return {sum, own_ ? own_->forward(sum) : sum};
}

}  // namespace capstan::decoder
