#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <map>
#include <memory>
#include <utility>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// What a unit's forward decides once and its second run in backward (recompute) must not decide again: which experts
/// see each token, how many rows then travel between ranks. One a forward; layers are told apart by their addresses.
class RecomputeContext {
 public:
  /// What `make` returned when this was first called for the layer `key`, always with the same type. Later runs get
  /// the same object and don't call it.
  template <class T, class Make>
  const T& once(const void* key, const Make& make) {
    auto& value = values_[key];
    if (!value) value = std::make_shared<T>(make());
    return *static_cast<const T*>(value.get());
  }
  /// What once() keeps for the layer; it must have been called.
  template <class T>
  const T& get(const void* key) const {
    const auto found = values_.find(key);
    CAPSTAN_ASSERT(found != values_.end());
    return *static_cast<const T*>(found->second.get());
  }

 private:
  std::map<const void*, std::shared_ptr<void>> values_;
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
