#pragma once
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/nn/model.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace capstan::testing {

/// A unit that counts its runs and calls `on_forward` (with the count so far) in each.
class TinyUnit : public nn::Unit {
 public:
  using Unit::Unit;
  int forwards = 0;
  std::function<void(int)> on_forward;

  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache*) override {
    ++forwards;
    if (on_forward) on_forward(forwards);
    return compute(std::move(hidden), batch);
  }

 protected:
  virtual nn::Hidden compute(nn::Hidden hidden, const nn::Batch& batch) = 0;
};

inline layout::Param tiny_record(const std::string& name, const layout::Shape& shape, bool trainable) {
  auto record = nn::record(name, shape, layout::Init::normal(0.5), true);
  record.trainable = trainable;
  return record;
}

inline nn::WeightPtr tiny_weight(const std::string& name, const layout::Shape& shape, bool trainable) {
  return std::make_shared<nn::Weight>(std::vector<layout::Param>{tiny_record(name, shape, trainable)});
}

/// Token ids to rows of a table; starts a running sum when asked to.
class TinyTable : public TinyUnit {
 public:
  TinyTable(nn::WeightPtr table, bool starts_sum)
      : TinyUnit("table"), table_(add(std::move(table))), starts_sum_(starts_sum) {}

 private:
  nn::Hidden compute(nn::Hidden hidden, const nn::Batch& batch) override {
    hidden.states = at::embedding(table_->value(), batch.tokens);
    if (starts_sum_) hidden.sums = {hidden.states.pow(2).mean()};
    return hidden;
  }
  nn::WeightPtr table_;
  bool starts_sum_;
};

/// x + dropout(tanh(x W^T) V^T + b) with W fused of two records; adds to a running sum where there is one.
class TinyLayer : public TinyUnit {
 public:
  struct Sizes {
    std::int64_t width = 5;
    std::int64_t first = 3;  // rows of the fused group's records
    std::int64_t second = 4;
  };
  TinyLayer(const std::string& name, bool trainable, const Sizes& sizes, double dropout)
      : TinyUnit(name),
        up_(add(std::make_shared<nn::Weight>(
            std::vector<layout::Param>{tiny_record(name + ".q", {sizes.first, sizes.width}, trainable),
                                       tiny_record(name + ".k", {sizes.second, sizes.width}, trainable)}))),
        down_(add(tiny_weight(name + ".down", {sizes.width, sizes.first + sizes.second}, trainable))),
        bias_(add(tiny_weight(name + ".bias", {sizes.width}, trainable))),
        dropout_(*this, name, dropout) {}

 private:
  nn::Hidden compute(nn::Hidden hidden, const nn::Batch& batch) override {
    const auto inner = at::tanh(at::linear(hidden.states, up_->value()));
    hidden.states = hidden.states + dropout_.forward(at::linear(inner, down_->value(), bias_->value()), batch);
    if (!hidden.sums.empty()) hidden.sums[0] = hidden.sums[0] + inner.pow(2).mean();
    return hidden;
  }
  nn::WeightPtr up_;
  nn::WeightPtr down_;
  nn::WeightPtr bias_;
  nn::Dropout dropout_;
};

/// A smooth function of x W^T, summed; running sums are added to it.
class TinyHead : public TinyUnit {
 public:
  explicit TinyHead(nn::WeightPtr table, nn::WeightPtr own = nullptr)
      : TinyUnit("head"), table_(add(std::move(table))) {
    if (own) own_ = add(std::move(own));
  }

 private:
  nn::Hidden compute(nn::Hidden hidden, const nn::Batch&) override {
    auto x = hidden.states;
    if (own_) x = x * own_->value();
    auto loss = at::sin(at::linear(x, table_->value())).sum();
    for (const auto& sum : hidden.sums) loss = loss + 3 * sum;
    hidden.states = loss;
    hidden.sums.clear();
    return hidden;
  }
  nn::WeightPtr table_;
  nn::WeightPtr own_;
};

using TinyChain = std::vector<std::unique_ptr<TinyUnit>>;

inline std::vector<nn::Unit*> pointers(const TinyChain& chain) {
  std::vector<nn::Unit*> units;
  for (const auto& unit : chain) units.push_back(unit.get());
  return units;
}

/// Different rows for every `number`; tokens below `vocab`.
inline nn::Batch tiny_batch(std::int64_t number, std::int64_t vocab = 7) {
  const auto longs = at::TensorOptions().dtype(at::kLong);
  nn::Batch batch;
  batch.tokens = (at::arange(8, longs) * 5 + number * 3).remainder(vocab).view({2, 4});
  batch.sample_ids = at::arange(2, longs) + 2 * number;
  batch.seed = 9;
  batch.step = 4;
  batch.training = true;
  return batch;
}

/// The chain without a runner: what everything else is compared with.
inline at::Tensor plain_loss(const TinyChain& chain, const nn::Batch& batch) {
  nn::Hidden hidden;
  for (const auto& unit : chain) hidden = unit->forward(std::move(hidden), batch, nullptr);
  return hidden.states;
}

inline std::vector<nn::WeightPtr> all_weights(const TinyChain& chain) {
  std::vector<nn::WeightPtr> weights;
  for (const auto& unit : chain) {
    for (const auto& weight : unit->weights()) {
      if (std::find(weights.begin(), weights.end(), weight) == weights.end()) weights.push_back(weight);
    }
  }
  return weights;
}

/// Binds leaves of fixed, uneven float64 values.
inline void bind_leaves(const TinyChain& chain) {
  double phase = 0.3;
  for (const auto& weight : all_weights(chain)) {
    auto shape = weight->records().front().shape;
    shape.front() = 0;
    for (const auto& record : weight->records()) shape.front() += record.shape.front();
    auto leaf = (at::arange(weight->numel(), at::kDouble) * 0.77 + phase).sin().mul(0.6).view(shape);
    weight->bind(leaf.set_requires_grad(weight->trainable()));
    phase += 0.4;
  }
}

/// The leaves' gradients by weight name, taken away from the leaves. A weight without one has no entry.
inline std::map<std::string, at::Tensor> take_gradients(const TinyChain& chain) {
  std::map<std::string, at::Tensor> gradients;
  for (const auto& weight : all_weights(chain)) {
    if (!weight->value().grad().defined()) continue;
    gradients[weight->name()] = weight->value().grad().clone();
    at::Tensor(weight->value()).mutable_grad().reset();
  }
  return gradients;
}

inline bool bit_equal(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, tensor] : a) {
    if (b.count(name) == 0 || !at::equal(tensor, b.at(name))) return false;
  }
  return true;
}

}  // namespace capstan::testing
