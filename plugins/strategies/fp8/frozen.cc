#include "frozen.h"

#include <algorithm>

namespace fp8 {

using namespace capstan;

const Quantised& Frozen::of(const nn::Weight& weight, const Make& make) {
  const at::Tensor& leaf = weight.value();
  const auto version = static_cast<std::uint32_t>(leaf._version());
  if (made_.values.defined() && leaf_ == leaf.unsafeGetTensorImpl() && version_ == version) return made_;
  made_ = {};  // its memory is free for the new one
  made_ = make();
  leaf_ = leaf.unsafeGetTensorImpl();
  version_ = version;
  return made_;
}

bool Frozen::keeps(const nn::Weight& weight) {
  const auto& records = weight.records();
  return !weight.trainable() && std::all_of(records.begin(), records.end(), [](const layout::Param& record) {
    return record.param.layout == record.compute;
  });
}

}  // namespace fp8
