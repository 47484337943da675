#include "attention.h"

#include <ATen/ATen.h>
#include <capstan/base/text.h>

#include <algorithm>

#include "columns.h"

namespace context_parallel {

using namespace capstan;

bool divides_heads(std::int64_t queries, std::int64_t keys, std::int64_t ranks) {
  return queries % ranks == 0 && (keys % ranks == 0 || ranks % keys == 0);
}

namespace {

std::int64_t all_columns(const nn::Batch& batch) { return batch.part->whole->tokens.size(1); }

// At least one head for each rank: a head that several ranks need follows itself.
at::Tensor for_ranks(const at::Tensor& heads, std::int64_t ranks) {
  if (heads.size(1) >= ranks) return heads;
  const auto copies = ranks / heads.size(1);
  return heads.unsqueeze(2).expand({-1, -1, copies, -1, -1}).flatten(1, 2);
}

// Values may be of another width than queries and keys, with which they travel.
at::Tensor as_wide(const at::Tensor& x, std::int64_t columns) {
  return x.size(-1) == columns ? x : at::constant_pad_nd(x, {0, columns - x.size(-1)});
}

at::Tensor first_of(const at::Tensor& wide, const at::Tensor& like) {
  return wide.size(-1) == like.size(-1) ? wide : wide.narrow(-1, 0, like.size(-1));
}

// [B, heads, columns, dim] -> [ranks, columns, B, heads / ranks, dim].
at::Tensor by_heads(const at::Tensor& x, std::int64_t ranks) {
  return x.unflatten(1, {ranks, x.size(1) / ranks}).permute({1, 3, 0, 2, 4});
}

}  // namespace

Ulysses::Ulysses(const std::shared_ptr<comm::Group>& group, const std::string& layer)
    : ranks_(group->size()),
      rank_(group->rank()),
      to_heads_(group, cat("all-to-all q k v cp ", layer)),
      to_columns_(group, cat("all-to-all attention cp ", layer)) {}

at::Tensor Ulysses::operator()(const nn::AttentionCore::Core& core, const at::Tensor& q, const at::Tensor& k,
                               const at::Tensor& v, const nn::Batch& batch) const {
  const auto counts = column_counts(all_columns(batch), ranks_);
  const std::vector<std::int64_t> own(counts.size(), q.size(2));
  const auto wide = std::max(q.size(-1), v.size(-1));
  const auto queries = by_heads(as_wide(q, wide), ranks_), keys = by_heads(for_ranks(as_wide(k, wide), ranks_), ranks_),
             values = by_heads(for_ranks(as_wide(v, wide), ranks_), ranks_);
  const auto sent = at::cat({queries, keys, values}, 3).flatten(0, 1);
  const auto all = in_order(to_heads_(sent, own, counts), ranks_).permute({1, 2, 0, 3});
  const auto parts = all.split_with_sizes({queries.size(3), keys.size(3), values.size(3)}, 1);
  auto whole = batch.whole();
  whole.heads = nn::HeadRange{rank_ * queries.size(3), q.size(1)};
  const auto y = by_rank(
      core(first_of(parts[0], q), first_of(parts[1], k), first_of(parts[2], v), whole).permute({2, 0, 1, 3}), ranks_);
  const auto back = to_columns_(y, counts, own).unflatten(0, {ranks_, q.size(2)});
  return back.permute({2, 0, 3, 1, 4}).flatten(1, 2);
}

Gather::Gather(const std::shared_ptr<comm::Group>& group, const std::string& layer, double dropout)
    : ranks_(group->size()), dropout_(dropout), to_all_(group, cat("all-gather k v cp ", layer)) {}

at::Tensor Gather::operator()(const nn::AttentionCore::Core& core, const at::Tensor& q, const at::Tensor& k,
                              const at::Tensor& v, const nn::Batch& batch) const {
  const auto counts = column_counts(all_columns(batch), ranks_);
  const std::vector<std::int64_t> own(counts.size(), k.size(2));
  const auto wide = std::max(k.size(-1), v.size(-1));
  const auto mine = at::cat({as_wide(k, wide), as_wide(v, wide)}, 1).permute({2, 0, 1, 3}).contiguous();
  const auto for_each = mine.unsqueeze(0).expand({ranks_, -1, -1, -1, -1}).flatten(0, 1);
  const auto all = in_order(to_all_(for_each, own, counts), ranks_).permute({1, 2, 0, 3});
  const auto parts = all.split_with_sizes({k.size(1), v.size(1)}, 1);
  const auto keys = first_of(parts[0], k), values = first_of(parts[1], v);
  if (!batch.training || dropout_ == 0) return core(q, keys, values, batch);
  const auto queries = batch.among_all_columns(q.transpose(1, 2)).transpose(1, 2);
  const auto y = core(queries, keys, values, batch.whole());
  return batch.own_columns(y.transpose(1, 2)).transpose(1, 2);
}

}  // namespace context_parallel
