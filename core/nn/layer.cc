#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/nn/layer.h>

#include <algorithm>
#include <utility>

namespace capstan::nn {

PortBase::PortBase(Layer& layer, std::string name) : layer_(layer), name_(std::move(name)) {
  layer.ports_.push_back(this);
}

void PortBase::take(const std::string& owner, bool taken) {
  if (taken) {
    throw Error(cat("port '", name_, "' of layer ", layer_.path(), " is wanted by '", owner_, "' and '", owner, "'"),
                "use one of them");
  }
  owner_ = owner;
}

Layer::Layer(std::string name) : name_(std::move(name)) {}

Layer::Layer(Layer& parent, std::string name) : name_(std::move(name)), parent_(&parent) {
  parent.children_.push_back(this);
}

// Either end of an edge may go first: members before their owner, a test's root before its layers.
Layer::~Layer() {
  for (auto* child : children_) child->parent_ = nullptr;
  if (parent_) std::erase(parent_->children_, this);
}

std::string Layer::path() const { return parent_ ? cat(parent_->path(), "/", name_) : name_; }

WeightPtr Layer::own(WeightPtr weight, Use use) {
  CAPSTAN_ASSERT(weight != nullptr);
  owned_.push_back({weight, use});
  for (auto* layer = this; layer; layer = layer->parent_) {
    auto& list = layer->weights_;
    if (std::find(list.begin(), list.end(), weight) == list.end()) list.push_back(weight);
  }
  return weight;
}

Region::Region(Layer& parent, std::string name) : Layer(parent, std::move(name)) {}
Region::~Region() = default;

}  // namespace capstan::nn
