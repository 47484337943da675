#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <utility>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// A place in a layer that a strategy may fill while it places the model: a collective before or behind a matrix
/// product, an adapter beside it, a recomputed region around it. Empty slots cost nothing. A slot has one owner.
template <class Signature>
class Slot {
 public:
  /// Throws Error that names both when it is taken.
  void fill(const std::string& owner, std::function<Signature> function) {
    if (function_)
      throw Error("the same slot of a layer is wanted by '" + owner_ + "' and '" + owner + "'", "use one of them");
    owner_ = owner;
    function_ = std::move(function);
  }
  explicit operator bool() const { return static_cast<bool>(function_); }
  template <class... Args>
  auto operator()(Args&&... args) const {
    return function_(std::forward<Args>(args)...);
  }

 private:
  std::string owner_;
  std::function<Signature> function_;
};

/// Tensor in, tensor out: a communication.
using CommSlot = Slot<at::Tensor(const at::Tensor&)>;

/// A named part of a unit ("attention", "mlp") that a strategy may run in its own way (selective recompute).
class Region {
 public:
  explicit Region(std::string name) : name_(std::move(name)) {}
  /// A body may run a second time, in backward: it captures by value what does not outlive the unit's forward (the
  /// batch, the cache), and is a pure function of its input and the weights.
  using Body = std::function<at::Tensor(const at::Tensor&)>;
  const std::string& name() const { return name_; }
  /// Filled: called with the body and its input; it returns what body(input) would.
  Slot<at::Tensor(const Body&, const at::Tensor&)> around;
  at::Tensor operator()(const at::Tensor& input, const Body& body) const {
    return around ? around(body, input) : body(input);
  }

 private:
  std::string name_;
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
