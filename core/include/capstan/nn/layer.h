#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/port.h>
#include <capstan/nn/weight.h>

#include <functional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// What ranks that share a model's layers do with a weight. The layer that owns the weight declares it; strategies that
/// place the model read it.
enum class Use {
  undeclared,  ///< not declared: refused where other layers are split
  split,       ///< a rank holds some of it, along the dimension that its kind of layer says (Linear: may_split())
  states,      ///< a rank holds all of it and applies it to the states of its positions: all, or some of them
  heads,       ///< a rank holds all of it and applies it to its own attention heads: its gradient is a partial sum
};

/// A part of a model: a tree by construction. A layer is made with its parent and is in the tree from then on, so that
/// a strategy sees every layer. Models and strategies bring kinds of their own by deriving from it.
class Layer {
 public:
  /// A weight and what its layer declares of it.
  struct Owned {
    WeightPtr weight;
    Use use = Use::undeclared;
  };

  /// The root of a tree.
  explicit Layer(std::string name);
  /// Joins the parent's tree. The parent must outlive it: be a member of it, or of one of its members.
  Layer(Layer& parent, std::string name);
  virtual ~Layer();
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  const std::string& name() const { return name_; }
  /// "blocks.0/attention/linear_qkv": for messages.
  std::string path() const;
  /// Null for a root.
  const Layer* parent() const { return parent_; }
  /// In the order in which they were made.
  const std::vector<Layer*>& children() const { return children_; }
  const std::vector<PortBase*>& ports() const { return ports_; }
  /// Its own weights.
  const std::vector<Owned>& owned() const { return owned_; }
  /// Its own weights and those of all layers below it, each once, in the order in which they were added.
  const std::vector<WeightPtr>& weights() const { return weights_; }

  /// Calls visit(T&) for every layer of kind T from here down, parents before children, older siblings first.
  template <class T, class Visit>
  void each(const Visit& visit) {
    if (auto* layer = dynamic_cast<T*>(this)) visit(*layer);
    for (auto* child : children_) child->each<T>(visit);
  }
  template <class T, class Visit>
  void each(const Visit& visit) const {
    if (const auto* layer = dynamic_cast<const T*>(this)) visit(*layer);
    for (const auto* child : children_) child->each<T>(visit);
  }
  /// The same as a list.
  template <class T>
  std::vector<T*> all() const {
    std::vector<T*> list;
    const_cast<Layer*>(this)->each<T>([&](T& layer) { list.push_back(&layer); });
    return list;
  }

 protected:
  /// Makes the weight this layer's and returns it. Throws Error if another layer of the tree declares another use.
  WeightPtr own(WeightPtr weight, Use use);

 private:
  friend class PortBase;
  std::string name_;
  Layer* parent_ = nullptr;
  std::vector<Layer*> children_;
  std::vector<PortBase*> ports_;
  std::vector<Owned> owned_;
  std::vector<WeightPtr> weights_;
};

/// A named part of a unit ("attention", "mlp") that a strategy may run in its own way (selective recompute).
class Region : public Layer {
 public:
  Region(Layer& parent, std::string name);
  ~Region() override;
  /// A body may run a second time, in backward: it captures by value what does not outlive the unit's forward (the
  /// batch, the cache), and is a pure function of its input and the weights.
  using Body = std::function<at::Tensor(const at::Tensor&)>;
  /// Filled: called in every forward with the body and its input; it returns what body(input) would.
  Port<at::Tensor(const Body&, const at::Tensor&)> around{*this, "around"};
  at::Tensor operator()(const at::Tensor& input, const Body& body) const {
    return around ? around(body, input) : body(input);
  }
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
