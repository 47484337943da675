#include <capstan/nn/batch.h>

namespace capstan::nn {

const KVCache::Entry& KVCache::put(std::size_t index, const at::Tensor& k, const at::Tensor& v,
                                   const at::Tensor& positions) {
  if (entries_.size() <= index) entries_.resize(index + 1);
  auto& entry = entries_[index];
  if (!entry.keys.defined()) {
    const std::vector<std::int64_t> shape{k.size(0), k.size(1), capacity_, k.size(3)};
    entry.keys = at::zeros(shape, k.options());
    entry.values = at::zeros(shape, v.options());
  }
  const auto where = positions.unsqueeze(1).unsqueeze(-1).expand(k.sizes());
  entry.keys.scatter_(2, where, k);
  entry.values.scatter_(2, where, v);
  return entry;
}

}  // namespace capstan::nn
