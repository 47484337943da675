#pragma once
#include <capstan/base/export.h>

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <utility>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

class Layer;

/// What all ports have, whatever goes through them.
class PortBase {
 public:
  PortBase(Layer& layer, std::string name);
  PortBase(const PortBase&) = delete;
  PortBase& operator=(const PortBase&) = delete;

  /// "before", "adapter".
  const std::string& name() const { return name_; }
  /// The strategy that filled it; empty: none did.
  const std::string& owner() const { return owner_; }

 protected:
  /// Throws Error that names the port and both strategies when it is taken.
  void take(const std::string& owner, bool taken);

 private:
  const Layer& layer_;
  std::string name_;
  std::string owner_;
};

/// A named place in a layer that a strategy may fill while it places the model: a collective before or after a matrix
/// product, an adapter next to it, a recomputed region around it. Empty ports cost nothing. A port has one owner.
template <class Signature>
class Port : public PortBase {
 public:
  using PortBase::PortBase;
  void fill(const std::string& owner, std::function<Signature> function) {
    take(owner, static_cast<bool>(function_));
    function_ = std::move(function);
  }
  explicit operator bool() const { return static_cast<bool>(function_); }
  template <class... Args>
  auto operator()(Args&&... args) const {
    return function_(std::forward<Args>(args)...);
  }

 private:
  std::function<Signature> function_;
};

/// Tensor in, tensor out: a communication.
using CommPort = Port<at::Tensor(const at::Tensor&)>;

}  // namespace nn
CAPSTAN_END_NAMESPACE
