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

namespace {

// One gradient cannot be complete and a partial sum.
void check_use(const Layer& layer, const Layer::Owned& added) {
  const auto* root = &layer;
  while (root->parent()) root = root->parent();
  root->each<Layer>([&](const Layer& other) {
    for (const auto& [weight, use] : other.owned()) {
      if (weight != added.weight || use == added.use || use == Use::undeclared || added.use == Use::undeclared)
        continue;
      throw Error(cat("layers ", other.path(), " and ", layer.path(), " both own ", weight->name(),
                      " and declare different uses of it"),
                  "declare the same nn::Use in both, or let one of them own it: docs/plugins.md, \"Layers\"");
    }
  });
}

}  // namespace

WeightPtr Layer::own(WeightPtr weight, Use use) {
  CAPSTAN_ASSERT(weight != nullptr);
  check_use(*this, {weight, use});
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
