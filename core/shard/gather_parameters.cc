// How BucketParameters gathers what is kept as numbers: from shards to full weights.
#include <capstan/base/error.h>
#include <capstan/nn/codec.h>

#include "shard/bucket_parameters.h"

namespace capstan::shard {
namespace {

// A gather of several dtypes is one of bytes.
void as_bytes(std::vector<at::Tensor>& tensors) {
  for (auto& tensor : tensors) tensor = tensor.view(at::kByte);
}

}  // namespace

// What this rank adds to `out`, of which it has a part of its shard `mine`. Where that is not in the right dtype it
// will be cast into its own place there: no memory is needed to send it from.
at::Tensor BucketParameters::part_to_send(const at::Tensor& mine, std::int64_t begin, const at::Tensor& out,
                                          Moves& casts) const {
  const auto size = out.numel() / plan_.ranks;
  auto part = mine.narrow(0, begin, size);
  if (part.scalar_type() == out.scalar_type()) return part;
  auto place = out.narrow(0, position() * size, size);
  casts.add(place, part);
  return place;
}

// The same in bytes. They are of the values that a gather of numbers would bring.
at::Tensor BucketParameters::encoded_part(std::size_t i, const at::Tensor& mine, std::int64_t begin,
                                          const at::Tensor& out) const {
  const auto size = out.numel() / plan_.ranks;
  auto place = out.narrow(0, position() * size, size);
  weight(i).gather_codec()->encode(mine.narrow(0, begin, size).to(plan_.parameters.full), leaves_[i].largest, place);
  return place;
}

void BucketParameters::bind_scales(const std::vector<at::Tensor>& largest, const std::vector<at::Tensor>& scales) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const auto& planned = plan_.weights[i];
    if (!planned.in_bytes) continue;
    leaves_[i].largest = largest[next];
    weight(i).gather_codec()->bind(leaves_[i].alias.view(planned.sharding.shape), scales[next++]);
  }
}

// Every record's shards go to their place. A weight whose shards are not contiguous passes through staging.
void BucketParameters::gather_in_place() {
  const auto mine = shard_to_send(), staging = gather_staging();
  std::vector<at::Tensor> out, in, staged;
  Moves casts;
  std::int64_t used = 0;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const auto& planned = plan_.weights[i];
    const auto add = [&](const at::Tensor& all, std::int64_t begin) {
      out.push_back(all);
      in.push_back(planned.in_bytes ? encoded_part(i, mine, begin, all) : part_to_send(mine, begin, all, casts));
    };
    if (!planned.sharding.in_place) {
      const auto size = planned.sharding.shard_elements * plan_.ranks;
      const auto own = staging.narrow(0, used, size);
      staged.push_back(planned.in_bytes ? own.view(at::kByte).narrow(0, 0, size) : own);
      add(staged.back(), planned.shard_offset);
      used += size;
      continue;
    }
    const auto flat = padded_leaf(i);
    for (const auto& shard : plan_.shards(planned, 0)) {
      const auto stride = planned.sharding.strides[shard.record];
      if (stride > 0) add(flat.narrow(0, shard.in_full, stride * plan_.ranks), planned.shard_offset + shard.in_shard);
    }
  }
  casts.run(true);
  if (plan_.gathers_bytes()) as_bytes(out), as_bytes(in);
  group_->all_gather(out, in, label_);
  unpack_staged(staged);
}

void BucketParameters::unpack_staged(const std::vector<at::Tensor>& staged) {
  Moves moves;
  auto next = staged.begin();
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const auto& planned = plan_.weights[i];
    if (planned.sharding.in_place) continue;
    const auto size = planned.sharding.shard_elements;
    for (int r = 0; r < plan_.ranks; ++r)
      unpack_weight(planned, r, next->narrow(0, r * size, size), leaves_[i].alias, moves);
    ++next;
  }
  moves.run(true);
}

void BucketParameters::gather_staged(bool keep) {
  const auto all = gather_staging().narrow(0, 0, plan_.shard_elements * plan_.ranks);
  gather_shards(all);
  Moves moves;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const auto& planned = plan_.weights[i];
    for (int r = 0; r < plan_.ranks; ++r)
      unpack_weight(planned, r, shard_of(plan_, planned, r, all), leaves_[i].alias, moves);
  }
  moves.run(true);
  if (keep && reshard_group_) {
    const auto mine = plan_.buffer(Purpose::regather)->elements;
    regather_ = all.narrow(0, reshard_group_->rank() * mine, mine).clone();
  }
}

void BucketParameters::gather_shards(const at::Tensor& all) {
  if (regather_.defined()) {
    reshard_group_->all_gather(all, regather_, label_);
    regather_ = at::Tensor();
    return;
  }
  Moves casts;
  const auto part = part_to_send(shard_to_send(), 0, all, casts);
  casts.run(true);
  group_->all_gather({all}, {part}, label_);
}

// The shard on the device: the masters, which may have to be cast, or what was made of them.
at::Tensor BucketParameters::shard_to_send() {
  const auto from = plan_.parameters.send_from;
  if (from == SendFrom::master) return masters_;
  if (from == SendFrom::device_copy) uploaded_.wait(shared_.device());
  return send_copy_.to(shared_.device(), /*non_blocking=*/true);
}

}  // namespace capstan::shard
