#include "shard/gather_scales.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <limits>

namespace capstan::shard {
namespace {

constexpr std::int64_t scale_stride = 4;  // cuBLAS wants a scale to begin at whole 16 bytes

}  // namespace

GatherScales::GatherScales(std::deque<BucketParameters>& buckets, Shared& shared, const GroupOf& group_of)
    : shared_(shared) {
  std::vector<BucketParameters*> those;
  for (auto& bucket : buckets)
    if (bucket.plan().parameters.gather_by == GatherBy::bytes_in_place) those.push_back(&bucket);
  if (those.empty()) return;
  // The scales of one group stand side by side, in the buckets' order on all ranks.
  std::stable_sort(those.begin(), those.end(),
                   [](const auto* a, const auto* b) { return a->plan().axes < b->plan().axes; });
  for (auto* bucket : those) {
    auto* group = &bucket->group();
    if (sharing_.empty() || sharing_.back().group != group)
      sharing_.push_back({group, static_cast<std::int64_t>(weights_.size()), 0});
    for (std::size_t i = 0; i < bucket->plan().weights.size(); ++i) {
      if (!bucket->plan().weights[i].in_bytes) continue;
      weights_.push_back({bucket, i});
      ++sharing_.back().count;
    }
  }
  const auto& [first, weight] = weights_.front();
  codec_ = first->plan().weights[weight].weight->codec();
  largest_ = at::zeros({static_cast<std::int64_t>(weights_.size())},
                       at::TensorOptions().dtype(at::kFloat).device(shared.device()));
  scales_ = at::ones({largest_.numel(), scale_stride}, largest_.options()).select(1, 0);
  for (std::int64_t k = 0; const auto& [bucket, i] : weights_) {
    bucket->bind_scale(i, largest_.narrow(0, k, 1), scales_.narrow(0, k, 1));
    ++k;
  }
  // Its name has its size, since it must not be the layers' own group on this axis: that one is for another stream.
  const auto pieces = shared.options.mesh.size(layout::Axis::tp);
  if (pieces > 1) tensor_group_ = group_of({layout::Axis::tp}, pieces);
}

// Magnitudes are in the compute dtype, as a gather of numbers would bring them: rounding keeps their order.
void GatherScales::update() {
  if (weights_.empty()) return;
  const at::NoGradGuard no_grad;
  const SideStream::Use on_stream(shared_.streams.gather);
  std::vector<at::Tensor> masters;
  for (const auto& [bucket, weight] : weights_) masters.push_back(bucket->masters().slice(weight, false));
  const auto magnitudes = at::_foreach_norm(masters, std::numeric_limits<double>::infinity());
  largest_.copy_(at::stack(magnitudes).to(shared_.options.precision.compute));
  const auto label = cat("all-reduce of magnitudes ", shared_.options.owner());
  for (const auto& [group, begin, count] : sharing_)
    group->all_reduce(largest_.narrow(0, begin, count), comm::ReduceOp::max, label);
  if (tensor_group_) tensor_group_->all_reduce(largest_, comm::ReduceOp::max, label);
  scales_.copy_(codec_->scales_of(largest_));
}

}  // namespace capstan::shard
