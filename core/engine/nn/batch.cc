#include <capstan/base/error.h>
#include <capstan/nn/batch.h>
#include "ops/move_rows.h"

namespace capstan::nn {
namespace {

std::vector<std::int64_t> with_rows(std::int64_t rows, std::int64_t cols, const at::Tensor& x) {
  std::vector<std::int64_t> shape{rows, cols};
  shape.insert(shape.end(), x.sizes().begin() + 2, x.sizes().end());
  return shape;
}

}  // namespace

at::Tensor Documents::apart(const at::Tensor& x) const {
  return ops::move_rows(x.flatten(0, 1), packed, alone, count * longest).view(with_rows(count, longest, x));
}

at::Tensor Documents::together(const at::Tensor& x, std::int64_t rows, std::int64_t cols) const {
  return ops::move_rows(x.flatten(0, 1), alone, packed, rows * cols).view(with_rows(rows, cols, x));
}

Batch Batch::apart() const {
  CAPSTAN_ASSERT(documents.has_value());
  auto batch = *this;
  batch.documents.reset();
  batch.positions = at::arange(documents->longest, positions.options()).expand({documents->count, documents->longest});
  batch.sample_ids = documents->sample_ids;
  batch.tokens = batch.labels = batch.loss_rows = batch.real = at::Tensor();
  return batch;
}

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
