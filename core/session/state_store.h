#pragma once
#include <capstan/base/export.h>
#include <capstan/strategy/step_hooks.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <map>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace session {

/// Strategies' own tensors by "plugin/bucket or step/name": made when first asked for, kept from step to step, saved
/// with a checkpoint. This rank's; nothing here is shared between ranks.
class StateStore {
 public:
  explicit StateStore(c10::Device device) : device_(device) {}
  /// Tensors under a prefix. The store must outlive it.
  strategy::StateOf of(const std::string& prefix);
  /// What a checkpoint saves and gives back.
  const std::map<std::string, at::Tensor>& tensors() const { return tensors_; }
  /// Puts back what a checkpoint has; an author who asks for another shape gets an Error.
  void put(const std::string& name, const at::Tensor& value);

 private:
  c10::Device device_;
  std::map<std::string, at::Tensor> tensors_;
};

}  // namespace session
CAPSTAN_END_NAMESPACE
