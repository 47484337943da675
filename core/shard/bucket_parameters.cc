#include "shard/bucket_parameters.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <utility>

#include "ops/table_rows.h"
#include "shard/packing.h"

namespace capstan::shard {
namespace {

// Allocates or frees a storage's memory without touching the tensors that view it: saved tensors and the leaf itself
// keep pointing to the same storage (PyTorch's FSDP2 frees and refills in the same way).
void set_storage_bytes(const at::Tensor& tensor, std::size_t bytes) {
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  if (storage->nbytes() == bytes) return;
  auto* allocator = c10::GetAllocator(tensor.device().type());
  storage->set_data_ptr_noswap(bytes == 0 ? at::DataPtr(nullptr, tensor.device()) : allocator->allocate(bytes));
  storage->set_nbytes(bytes);
}

// The memory is used on the current stream, which is not the one it was allocated on.
void note_use(const at::Tensor& tensor) {
  const auto device = tensor.device();
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.recordDataPtrOnStream(tensor.storage().data_ptr(), guard.getStream(device));
}

}  // namespace

BucketParameters::BucketParameters(const BucketPlan& plan, Shared& shared, const GroupOf& group_of)
    : plan_(plan),
      shared_(shared),
      label_(cat("all-gather ", shared.options.owner(), " ", plan.name)),
      group_(group_of(plan.axes, 0)) {
  CAPSTAN_ASSERT(group_->size() == plan.ranks);
  if (plan.packs() && shared.options.mesh.size(layout::Axis::tp) > 1)
    packing_.tensor_group = group_of({layout::Axis::tp}, 0);
  if (plan.parameters.reshard_ranks == 0) return;
  reshard_group_ = group_of(plan.axes, plan.parameters.reshard_ranks);
  CAPSTAN_ASSERT(reshard_group_->size() == plan.parameters.reshard_ranks);
}

void BucketParameters::allocate() {
  const auto allocated = [&](Purpose purpose) {
    const auto* buffer = plan_.buffer(purpose);
    return buffer ? shard::allocate(*buffer, shared_.device()) : at::Tensor();
  };
  masters_ = allocated(Purpose::master);
  packed_ = allocated(Purpose::packed);
  host_send_ = allocated(Purpose::send_on_host);
  send_copy_ = allocated(Purpose::send_on_device);
  if (plan_.parameters.send_from == SendFrom::host) send_copy_ = host_send_.defined() ? host_send_ : masters_;
  for (std::size_t i = 0; i < plan_.weights.size(); ++i) make_leaf(i);
  if (!masters_.defined() && !plan_.packs()) {
    // The masters are the full parameters themselves, viewed with their padding.
    for (std::size_t i = 0; i < plan_.weights.size(); ++i) master_slice(i, false).zero_();
  }
  // Buffers on the device are zeros by work of this stream, which the stream of copies to them does not wait for later.
  if (plan_.on_host) {
    const SideStream::Use after_zeros(shared_.streams.transfer);
  }
}

// The full weight's leaf with its own storage, and an alias to write through.
void BucketParameters::make_leaf(std::size_t i) {
  const auto& sharding = plan_.weights[i].sharding;
  auto& weight = *plan_.weights[i].weight;
  Leaf leaf;
  const auto flat = shard::allocate(*plan_.buffer(Purpose::full_parameters, i), shared_.device());
  leaf.alias = flat.narrow(0, 0, sharding.numel);
  if (plan_.weights[i].in_bytes) {
    leaf.tensor = at::empty(sharding.shape, flat.options().dtype(plan_.parameters.full));
    set_storage_bytes(leaf.tensor, 0);
  } else {
    leaf.tensor =
        at::empty({0}, flat.options()).set_(flat.storage(), 0, sharding.shape, c10::contiguous_strides(sharding.shape));
  }
  leaf.tensor.set_requires_grad(plan_.trainable);
  weight.bind(leaf.tensor);
  if (plan_.is_table() && plan_.is_tied()) {
    leaf.table = at::empty({0}, flat.options()).set_(flat.storage(), 0, sharding.shape, leaf.tensor.strides());
    leaf.table.set_requires_grad(true);
  }
  if (!leaf.table.defined()) leaf.table = leaf.tensor;
  if (plan_.is_table()) ops::give_rows(leaf.table);
  if (plan_.shards_param) set_storage_bytes(leaf.alias, 0);
  leaves_.push_back(std::move(leaf));
}

at::Tensor BucketParameters::master_slice(std::size_t i, bool unpadded) const {
  const auto& planned = plan_.weights[i];
  if (plan_.gathers()) return masters_.narrow(0, planned.shard_offset, planned.sharding.shard_elements);
  const auto size = unpadded ? planned.sharding.numel : planned.sharding.full_elements;
  if (masters_.defined()) return masters_.narrow(0, planned.full_offset, size);
  return padded_leaf(i).narrow(0, 0, size);
}

at::Tensor BucketParameters::copy_slice(std::size_t i, bool unpadded) const {
  const auto& planned = plan_.weights[i];
  if (plan_.on_host || !masters_.defined()) return {};
  if (plan_.gathers()) {
    return plan_.parameters.send_from == SendFrom::device_copy
               ? send_copy_.narrow(0, planned.shard_offset, planned.sharding.shard_elements)
               : at::Tensor();
  }
  const bool whole = unpadded || planned.sharding.full_elements == planned.sharding.numel;
  return whole ? leaves_[i].alias : padded_leaf(i);
}

void BucketParameters::publish(bool copied) {
  if (plan_.gathers()) {
    if (!copied && !plan_.on_host && plan_.parameters.send_from == SendFrom::device_copy) send_copy_.copy_(masters_);
    regather_ = at::Tensor();
    return;
  }
  if (!masters_.defined() || copied) return;
  Moves moves;
  for (std::size_t i = 0; i < leaves_.size(); ++i) moves.add(leaves_[i].alias, master_slice(i, true));
  moves.run(true);
}

void BucketParameters::publish_from_host() {
  cast_to_send(0, plan_.shard_elements);
  send_up();
}

void BucketParameters::cast_to_send(std::int64_t begin, std::int64_t elements) {
  if (host_send_.defined()) host_send_.narrow(0, begin, elements).copy_(masters_.narrow(0, begin, elements));
}

at::Tensor BucketParameters::send_slice(std::size_t i) const {
  const auto& planned = plan_.weights[i];
  return host_send_.defined() ? host_send_.narrow(0, planned.shard_offset, planned.sharding.shard_elements)
                              : at::Tensor();
}

void BucketParameters::send_up() {
  if (plan_.parameters.send_from != SendFrom::device_copy) return;
  const SideStream::Use on_stream(shared_.streams.transfer, false);
  send_copy_.copy_(host_send_.defined() ? host_send_ : masters_, /*non_blocking=*/true);
  uploaded_.record(shared_.device());
}

// With the limit, memory comes from the compute stream: memory that it has freed can be reused, and the gather waits
// for it. Without, it comes from the side stream's own pool, and the gather only waits for the last update.
void BucketParameters::take_memory() {
  if (!plan_.shards_param) return;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    set_storage_bytes(leaves_[i].alias, static_cast<std::size_t>(plan_.buffer(Purpose::full_parameters, i)->bytes()));
  }
}

void BucketParameters::release() {
  const bool foreign = !shared_.options.policy.limit_all_gathers && shared_.streams.gather.overlaps();
  for (auto& leaf : leaves_) {
    if (foreign) note_use(leaf.alias);
    set_storage_bytes(leaf.alias, 0);
  }
}

void BucketParameters::prefetch(bool keep) {
  const at::NoGradGuard no_grad;
  if (await_update_) await_update_();
  const bool limited = shared_.options.policy.limit_all_gathers;
  if (limited) take_memory();
  const SideStream::Use on_stream(shared_.streams.gather, limited);
  if (!limited) {
    shared_.updated.wait(shared_.device());
    take_memory();
  }
  if (plan_.packs()) {
    gather_packed();
  } else if (plan_.parameters.in_place) {
    gather_in_place();
  } else {
    gather_staged(keep);
  }
  gathered_.record(shared_.device());
}

// One storage may serve two purposes: the first one counts.
void BucketParameters::visit_held(const VisitHeld& visit) const {
  const auto* master = plan_.buffer(Purpose::master);
  visit(Purpose::master, masters_, master && master->is_on_host());
  visit(Purpose::packed, packed_, plan_.packs() && plan_.on_host);
  visit(Purpose::send_on_host, host_send_, true);
  visit(Purpose::send_on_device, send_copy_, false);
  visit(Purpose::regather, regather_, false);
  for (const auto& leaf : leaves_) visit(Purpose::full_parameters, leaf.alias, false);
}

// The weight's storage with its padding.
at::Tensor BucketParameters::padded_leaf(std::size_t i) const {
  const auto& alias = leaves_[i].alias;
  return at::empty({0}, alias.options()).set_(alias.storage(), 0, {plan_.weights[i].sharding.full_elements}, {1});
}

}  // namespace capstan::shard
