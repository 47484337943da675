// Sums that pass through staging: all ranks' shards one after the other, in the dtype of sums, piece by piece.
#include <ATen/ATen.h>
#include <capstan/base/text.h>

#include "shard/packing.h"
#include "shard/reducer.h"

namespace capstan::shard {

std::vector<at::Tensor> Reducer::sources() {
  std::vector<at::Tensor> list;
  for (std::size_t i = 0; i < plan_.weights.size(); ++i) list.push_back(source(i));
  return list;
}

// The piece's staging with the gradients of these weights, gaps zero.
at::Tensor Reducer::packed(const BucketPiece& piece, const std::vector<at::Tensor>& sources) {
  const bool exchanges = plan_.gradients.sum_by == SumBy::exchange;
  const auto staging = exchanges ? shared_.reduce_staging.view(plan_.parameters.full) : shared_.reduce_staging;
  auto all = staging.narrow(0, 0, piece.size() * plan_.ranks);
  Moves moves;
  for (std::size_t i = 0; i < plan_.weights.size(); ++i) {
    const auto& planned = plan_.weights[i];
    each_staged(plan_, planned, piece, all, [&](int position, const at::Tensor& part, std::int64_t begin) {
      pack_weight(planned, position, sources[i], part, moves, begin);
    });
  }
  moves.run(true);
  read_.record(shared_.device());
  return all;
}

void Reducer::reduce_staged(const Reduction& how, const at::Tensor& out) {
  const auto from = sources();
  auto& group = parameters_.group();
  if (shared_.options.reduce_overrides.contains(layout::Axis::dp) && group.size() > 1) {
    // The strategy is to see all of it.
    overridden(layout::Axis::dp, how, Flat::shards, packed({0, plan_.shard_elements}, from), out, group);
    return;
  }
  for (const auto& piece : pieces_of(plan_, shared_.options.most_staged)) {
    const auto all = packed(piece, from), sum = out.narrow(0, piece.begin, piece.size());
    if (plan_.gradients.sum_by == SumBy::exchange) {
      exchange(sum, all);
    } else {
      group.reduce_scatter(sum, all, "reduce-scatter " + label_);
    }
  }
}

// This moves half of what a reduce-scatter in the wider dtype moves. The sum is in the order of ranks.
void Reducer::exchange(const at::Tensor& sum, const at::Tensor& all) {
  const auto staging = shared_.reduce_staging.view(all.scalar_type());
  const auto parts = staging.narrow(0, all.numel(), all.numel());
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(plan_.ranks), sum.numel());
  parameters_.group().all_to_all(parts, all, counts, counts, "exchange " + label_);
  if (sum.is_cuda()) {
    at::Tensor out = sum;
    at::sum_out(out, parts.view({plan_.ranks, sum.numel()}), at::IntArrayRef{0}, /*keepdim=*/false, sum.scalar_type());
    return;
  }
  sum.copy_(parts.narrow(0, 0, sum.numel()));
  for (int r = 1; r < plan_.ranks; ++r) sum.add_(parts.narrow(0, r * sum.numel(), sum.numel()));
}

// Full gradients are summed by the same calls as shards, so that both are bit-equal.
void Reducer::sum_in_order(bool write) {
  const auto from = sources();
  for (const auto& piece : pieces_of(plan_, shared_.options.most_staged)) {
    const auto all = packed(piece, from);
    const auto sum = shared_.sum_staging.narrow(0, 0, piece.size());
    parameters_.group().reduce_scatter(sum, all, "reduce-scatter " + label_);
    parameters_.group().all_gather(all, sum, "all-gather " + label_);
    unpack(piece, all, write);
  }
}

void Reducer::unpack(const BucketPiece& piece, const at::Tensor& all, bool write) {
  Moves moves;
  for (const auto& planned : plan_.weights) {
    const auto full = planned.of_full(full_);
    each_staged(plan_, planned, piece, all, [&](int position, const at::Tensor& part, std::int64_t begin) {
      unpack_weight(planned, position, part, full, moves, begin);
    });
  }
  moves.run(write);
}

}  // namespace capstan::shard
