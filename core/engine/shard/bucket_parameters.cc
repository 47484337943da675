#include "shard/bucket_parameters.h"

#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/nn/codec.h>

namespace capstan::shard {
namespace {

// A gather of several dtypes is one of bytes.
void as_bytes(std::vector<at::Tensor>& tensors) {
  for (auto& tensor : tensors) tensor = tensor.view(at::kByte);
}

}  // namespace

BucketParameters::BucketParameters(const BucketPlan& plan, Shared& shared, const GroupOf& group_of)
    : plan_(plan),
      shared_(shared),
      full_(plan, shared.device()),
      masters_(plan, shared, full_),
      label_(cat("all-gather ", shared.options.owner(), " ", plan.name)),
      group_(group_of(plan.axes, 0)),
      largest_(plan.weights.size()) {
  CAPSTAN_ASSERT(group_->size() == plan.ranks);
  if (plan.parameters.form == Form::packed && shared.options.mesh.size(layout::Axis::tp) > 1)
    tensor_group_ = group_of({layout::Axis::tp}, 0);
  if (plan.parameters.reshard_ranks == 0) return;
  reshard_group_ = group_of(plan.axes, plan.parameters.reshard_ranks);
  CAPSTAN_ASSERT(reshard_group_->size() == plan.parameters.reshard_ranks);
}

void BucketParameters::allocate() {
  full_.allocate();
  masters_.allocate();
}

// With the limit, memory comes from the compute stream: memory that it has freed can be reused, and the gather waits
// for it. Without it, memory comes from the side stream's own pool, and the gather only waits for the last update.
void BucketParameters::prefetch(bool keep) {
  const at::NoGradGuard no_grad;
  if (await_update_) await_update_();
  const bool limited = shared_.options.policy.limit_all_gathers;
  if (limited) full_.take_memory();
  const SideStream::Use on_stream(shared_.streams.gather, limited);
  if (!limited) {
    shared_.updated.wait(shared_.device());
    full_.take_memory();
  }
  switch (plan_.parameters.gather_by) {
    case GatherBy::nothing:
      break;
    case GatherBy::unpacking:
      gather_staged(keep);
      break;
    case GatherBy::in_place:
    case GatherBy::bytes_in_place:
      gather_in_place();
      break;
    case GatherBy::decoding:
      gather_packed();
      break;
  }
  gathered_.record(shared_.device());
}

void BucketParameters::release() {
  full_.free_memory(!shared_.options.policy.limit_all_gathers && shared_.streams.gather.overlaps());
}

void BucketParameters::publish(bool copied) {
  masters_.publish(copied);
  regather_ = at::Tensor();
}

void BucketParameters::add_held(HeldMemory& memory) const {
  masters_.add_held(memory);
  memory.add(Purpose::regather, regather_);
  full_.add_held(memory);
}

// What this rank adds to `out`: a part of its shard `mine`. Where that does not have the right dtype, it will be cast
// into its own place in `out`: no memory is needed to send it from.
at::Tensor BucketParameters::part_to_send(const at::Tensor& mine, std::int64_t begin, const at::Tensor& out,
                                          Moves& casts) const {
  const auto size = out.numel() / plan_.ranks;
  auto part = mine.narrow(0, begin, size);
  if (part.scalar_type() == out.scalar_type()) return part;
  auto place = out.narrow(0, position() * size, size);
  casts.add(place, part);
  return place;
}

// The same in bytes, which encode the values that a gather of numbers would bring.
at::Tensor BucketParameters::encoded_part(std::size_t i, const at::Tensor& mine, std::int64_t begin,
                                          const at::Tensor& out) const {
  const auto size = out.numel() / plan_.ranks;
  auto place = out.narrow(0, position() * size, size);
  const auto values = mine.narrow(0, begin, size).to(plan_.parameters.full);
  plan_.weights[i].weight->gathering_codec()->encode_to_gather(values, largest_[i], place);
  return place;
}

void BucketParameters::bind_scale(std::size_t i, const at::Tensor& largest, const at::Tensor& scale) {
  const auto& planned = plan_.weights[i];
  largest_[i] = largest;
  planned.weight->gathering_codec()->bind_gathered(full_.flat(i).view(planned.sharding.shape), scale);
}

// Every record's shards go to their place. A weight whose shards are not contiguous passes through staging.
void BucketParameters::gather_in_place() {
  const auto mine = masters_.to_send();
  std::vector<at::Tensor> out, in, staged(plan_.weights.size());
  Moves casts;
  std::int64_t used = 0;
  for (std::size_t i = 0; i < plan_.weights.size(); ++i) {
    const auto& planned = plan_.weights[i];
    const auto add = [&](const at::Tensor& all, std::int64_t begin) {
      out.push_back(all);
      in.push_back(planned.in_bytes ? encoded_part(i, mine, begin, all) : part_to_send(mine, begin, all, casts));
    };
    if (!planned.sharding.in_place) {
      const auto size = planned.sharding.shard_elements * plan_.ranks;
      const auto own = staging().narrow(0, used, size);
      staged[i] = planned.in_bytes ? own.view(at::kByte).narrow(0, 0, size) : own;
      add(staged[i], planned.shard_offset);
      used += size;
      continue;
    }
    const auto flat = full_.padded(i);
    for (const auto& shard : planned.sharding.of(0)) {
      const auto stride = planned.sharding.strides[shard.record];
      if (stride > 0) add(flat.narrow(0, shard.in_full, stride * plan_.ranks), planned.shard_offset + shard.in_shard);
    }
  }
  casts.run(true);
  if (plan_.parameters.gather_by == GatherBy::bytes_in_place) as_bytes(out), as_bytes(in);
  group_->all_gather(out, in, label_);
  unpack(staged);
}

// `staged`, by weight: all ranks' shards as [ranks, shard] in any strides, or undefined.
void BucketParameters::unpack(const std::vector<at::Tensor>& staged) const {
  Moves moves;
  for (std::size_t i = 0; i < staged.size(); ++i) {
    if (!staged[i].defined()) continue;
    const auto shards = staged[i].view({plan_.ranks, -1});
    for (int r = 0; r < plan_.ranks; ++r) unpack_weight(plan_.weights[i], r, shards[r], full_.flat(i), moves);
  }
  moves.run(true);
}

void BucketParameters::gather_staged(bool keep) {
  const auto all = staging().narrow(0, 0, plan_.shard_elements * plan_.ranks);
  if (regather_.defined()) {
    reshard_group_->all_gather(all, regather_, label_);
    regather_ = at::Tensor();
  } else {
    Moves casts;
    const auto part = part_to_send(masters_.to_send(), 0, all, casts);
    casts.run(true);
    group_->all_gather({all}, {part}, label_);
  }
  const auto by_rank = all.view({plan_.ranks, plan_.shard_elements});
  std::vector<at::Tensor> staged;
  for (const auto& planned : plan_.weights)
    staged.push_back(by_rank.narrow(1, planned.shard_offset, planned.sharding.shard_elements));
  unpack(staged);
  if (keep && reshard_group_) {
    const auto mine = plan_.buffer(Purpose::regather)->elements;
    regather_ = all.narrow(0, reshard_group_->rank() * mine, mine).clone();
  }
}

// Decodes the bytes of all ranks to their place.
void BucketParameters::gather_packed() {
  auto all = masters_.packed().to(shared_.device(), /*non_blocking=*/true);
  if (plan_.ranks > 1) {
    const auto mine = all;
    all = at::empty({plan_.parameters.packed_bytes * plan_.ranks}, mine.options());
    group_->all_gather({all}, {mine}, label_);
  }
  for (int r = 0; r < plan_.ranks; ++r)
    decode(all.narrow(0, r * plan_.parameters.packed_bytes, plan_.parameters.packed_bytes), r);
}

// The packed shard of the rank at `position`.
void BucketParameters::decode(const at::Tensor& bytes, int position) const {
  for (std::size_t i = 0; i < plan_.weights.size(); ++i) {
    const auto& planned = plan_.weights[i];
    for (std::size_t j = 0; j < planned.packed.size(); ++j) {
      const auto& packed = planned.packed[j];
      const auto& extent = packed.extents[static_cast<std::size_t>(position)];
      if (extent.numel() == 0) continue;
      const auto shard = planned.sharding.shard(j, position);
      const auto apart = plan_.ranks > 1 && shard.blocks > 1 ? shard.block_apart : extent.elements;
      const auto& flat = full_.flat(i);
      const auto values =
          flat.as_strided({extent.matrices, extent.elements}, {apart, 1}, flat.storage_offset() + shard.in_full);
      const auto& codec = *planned.weight->keeping_codec();
      codec.decode(extent, bytes.narrow(0, packed.begin, codec.bytes(extent)), values);
    }
  }
}

}  // namespace capstan::shard
