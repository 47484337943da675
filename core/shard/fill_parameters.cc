// Filling a bucket's parameters from files.
#include <capstan/base/text.h>

#include <utility>

#include "shard/bucket_parameters.h"
#include "shard/fill.h"

namespace capstan::shard {

// A record's elements of what this rank has of a weight: its shard, or all.
at::Tensor BucketParameters::record_of(std::size_t i, std::size_t record, const at::Tensor& weight) const {
  const auto& planned = plan_.weights[i];
  if (plan_.gathers()) {
    const auto& shard = plan_.shards(planned, position())[record];
    return weight.narrow(0, shard.in_shard, shard.numel);
  }
  const auto begin = plan_.shards(planned, 0)[record].in_full;
  std::int64_t numel = 0;
  for (int r = 0; r < plan_.ranks; ++r) numel += plan_.shards(planned, r)[record].numel;
  return weight.narrow(0, begin, numel);
}

at::Tensor BucketParameters::fill_target(std::size_t i, std::size_t record, const at::Tensor& uncoded) const {
  if (!uncoded.defined()) return record_of(i, record, master_slice(i, true));
  const auto& planned = plan_.weights[i];
  const auto begin = plan_.gathers() ? planned.shard_offset : planned.full_offset;
  const auto size = plan_.gathers() ? planned.sharding.shard_elements : planned.sharding.full_elements;
  return record_of(i, record, uncoded.narrow(0, begin, size));
}

void BucketParameters::fill(layout::Source& source) { publish_filled(read_values(source)); }

at::Tensor BucketParameters::read_values(layout::Source& source) {
  at::Tensor uncoded;
  if (plan_.is_coded()) {
    const auto values = at::TensorOptions().dtype(shared_.options.precision.compute).device(shared_.device());
    uncoded = at::zeros({plan_.gathers() ? plan_.shard_elements : plan_.full_elements}, values);
  }
  std::vector<FillTask> tasks;
  for (std::size_t i = 0; i < plan_.weights.size(); ++i) {
    const auto& records = plan_.weights[i].weight->records();
    for (std::size_t j = 0; j < records.size(); ++j) {
      const auto& record = records[j];
      auto box = record.compute.box(record.shape, shared_.options.mesh, shared_.options.rank);
      if (plan_.gathers()) box = plan_.weights[i].sharding.box(j, position(), std::move(box));
      auto out = fill_target(i, j, uncoded);
      if (!find_coded(i, j, box, source) && out.numel() > 0) tasks.push_back({&record, box, std::move(out)});
    }
  }
  fill_all(source, tasks);
  return uncoded;
}

void BucketParameters::publish_filled(const at::Tensor& uncoded) {
  if (plan_.packs()) {
    encode(uncoded);
  } else {
    if (plan_.in_bytes()) encode_rows(uncoded);
    if (plan_.on_host) publish_from_host();
    publish();
  }
  for (auto& leaf : leaves_) leaf.tensor.unsafeGetTensorImpl()->bump_version();
}

std::vector<std::string> BucketParameters::fill_from_first(layout::Source& source, comm::Group& everyone) {
  const auto uncoded = read_values(source);
  std::vector<std::string> differing;
  for (std::size_t i = 0; i < plan_.weights.size(); ++i) {
    const auto& records = plan_.weights[i].weight->records();
    for (std::size_t j = 0; j < records.size(); ++j) {
      if (packing_.coded.contains({i, j})) continue;  // each rank has read its part
      const auto& record = records[j];
      const auto box = record.compute.box(record.shape, shared_.options.mesh, shared_.options.rank);
      const auto dtype = uncoded.defined() ? uncoded.scalar_type() : plan_.parameters.master;
      auto full = at::zeros({box.numel()}, at::TensorOptions().dtype(dtype).device(shared_.device()));
      if (everyone.rank() == 0 && box.numel() > 0) source.fill(record, box, full);
      everyone.broadcast(full, 0, cat("broadcast ", shared_.options.owner(), " ", record.name));
      const auto mine = fill_target(i, j, uncoded);
      if (plan_.gathers()) {
        auto shard = plan_.shards(plan_.weights[i], position())[j];
        shard.in_full -= plan_.shards(plan_.weights[i], 0)[j].in_full;
        full = shard.of_full(full).reshape({-1});
      }
      const auto theirs = full.to(mine.device());
      if (at::equal(mine, theirs)) continue;
      differing.push_back(record.name);
      mine.copy_(theirs);
    }
  }
  publish_filled(uncoded);
  return differing;
}

}  // namespace capstan::shard
