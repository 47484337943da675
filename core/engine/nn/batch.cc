#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/nn/batch.h>

#include <algorithm>

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

const at::Tensor& Batch::field(std::string_view name) const {
  const auto& fields = samples.fields;
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const Field& field) { return field.name == name; });
  if (found != fields.end()) return found->values;
  std::vector<std::string> names;
  for (const auto& field : fields) names.push_back(field.name);
  throw Error(cat("the data has no field '", name, "'"),
              names.empty() ? std::string("it declares none") : cat("it declares ", join(names)));
}

at::Tensor Batch::label_sequences() const {
  at::Tensor of_positions;
  if (documents) {
    const auto each = documents->alone.div(documents->longest, "floor");
    of_positions = at::zeros({tokens.numel()}, tokens.options());
    of_positions.scatter_(0, documents->packed, documents->sequences.index_select(0, each));
    return loss_rows.defined() ? of_positions.index_select(0, loss_rows) : of_positions;
  }
  const auto positions_of_all = loss_rows.defined() ? loss_rows : at::arange(tokens.numel(), tokens.options());
  return positions_of_all.div(tokens.size(1), "floor");
}

at::Tensor Batch::sum_by_sequence(const at::Tensor& values) const {
  // No position stands twice in loss_rows, and no sequence twice in documents: nothing is added where it is moved to.
  const auto moved = [&](const at::Tensor& from, const at::Tensor& to, std::int64_t size) {
    return at::zeros({size}, from.options()).scatter(0, to, from);
  };
  const auto of_positions = loss_rows.defined() ? moved(values, loss_rows, tokens.numel()) : values;
  const auto rows = of_positions.view(tokens.sizes());
  if (!documents) return rows.sum(1);
  const auto sums = documents->apart(rows.unsqueeze(-1)).squeeze(-1).sum(1);
  return moved(sums, documents->sequences, samples.sequences());
}

at::Tensor Batch::has_sample() const {
  if (documents) return at::ones({samples.count}, tokens.options().dtype(at::kBool));
  return sample_ids.view({samples.count, samples.per_sample}).select(1, 0).ge(0);
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
