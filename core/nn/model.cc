#include <capstan/nn/model.h>

#include <algorithm>
#include <utility>

namespace capstan::nn {

Unit::Unit(std::string name) : name_(std::move(name)) {}
Unit::~Unit() = default;
Model::~Model() = default;

bool Unit::trainable() const {
  return std::any_of(weights_.begin(), weights_.end(), [](const WeightPtr& weight) { return weight->trainable(); });
}

WeightPtr Unit::add(WeightPtr weight) {
  weights_.push_back(weight);
  return weight;
}

WeightPtr Unit::add_record(const std::string& name, std::vector<std::int64_t> shape, layout::Init init, bool decay) {
  return add(std::make_shared<Weight>(std::vector<layout::Param>{record(name, std::move(shape), init, decay)}));
}

WeightPtr Unit::add_group(std::vector<layout::Param> records) {
  return add(std::make_shared<Weight>(std::move(records)));
}

void Unit::adapt(Adapter adapter) {
  add(adapter.down);
  add(adapter.up);
  adapters_.push_back(std::move(adapter));
}

void Unit::expose(RotaryAttention& attention) {
  expose(attention.qkv());
  expose(attention.projection());
  expose(attention.dropout());
  attentions_.push_back(&attention);
}

void Unit::expose(Router& router) {
  expose(router.gate());
  routers_.push_back(&router);
}

void Unit::expose(GatedMlp& mlp) {
  expose(mlp.gate_up());
  expose(mlp.down());
}

}  // namespace capstan::nn
