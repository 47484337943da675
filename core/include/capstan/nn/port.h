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

  /// For whoever fills it: without what goes through this port the model would compute something else, in silence. A
  /// run whose first forward in training never asks such a port of its own units is refused.
  void must_act() { must_act_ = true; }
  bool is_passed_over() const { return must_act_ && !asked_; }

 protected:
  /// Throws Error that names the port and both strategies when it is taken.
  void take(const std::string& owner, bool taken);
  void note_asked() const { asked_ = true; }

 private:
  const Layer& layer_;
  std::string name_;
  std::string owner_;
  bool must_act_ = false;
  mutable bool asked_ = false;  // by the thread that runs the rank's forwards, which is the only one that reads it
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
    note_asked();
    return function_(std::forward<Args>(args)...);
  }

 private:
  std::function<Signature> function_;
};

/// Tensor in, tensor out: a communication.
using CommPort = Port<at::Tensor(const at::Tensor&)>;

}  // namespace nn
CAPSTAN_END_NAMESPACE
