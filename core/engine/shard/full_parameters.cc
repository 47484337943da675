#include "shard/bucket_parameters.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "ops/table_rows.h"

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

void note_use(const at::Tensor& tensor) {
  const auto device = tensor.device();
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.recordDataPtrOnStream(tensor.storage().data_ptr(), guard.getStream(device));
}

}  // namespace

void FullParameters::allocate() {
  for (std::size_t i = 0; i < plan_.weights.size(); ++i) {
    leaves_.push_back(make_leaf(i));
    plan_.weights[i].weight->bind(leaves_[i].tensor);
  }
}

FullParameters::Leaf FullParameters::make_leaf(std::size_t i) const {
  const auto& sharding = plan_.weights[i].sharding;
  Leaf leaf;
  const auto padded = shard::allocate(*plan_.buffer(Purpose::full_parameters, i), device_);
  leaf.flat = padded.narrow(0, 0, sharding.numel);
  const auto view = [&] {
    const auto strides = c10::contiguous_strides(sharding.shape);
    return at::empty({0}, padded.options()).set_(padded.storage(), 0, sharding.shape, strides);
  };
  if (plan_.weights[i].in_bytes) {
    leaf.tensor = at::empty(sharding.shape, padded.options().dtype(plan_.parameters.full));
    set_storage_bytes(leaf.tensor, 0);
  } else {
    leaf.tensor = view();
  }
  leaf.table = plan_.gradients.table && !plan_.gradients.only_looked_up() ? view() : leaf.tensor;
  leaf.tensor.set_requires_grad(plan_.trainable);
  leaf.table.set_requires_grad(plan_.trainable);
  if (plan_.gradients.table) ops::give_rows(leaf.table);
  if (plan_.shards_param) set_storage_bytes(leaf.flat, 0);
  return leaf;
}

at::Tensor FullParameters::padded(std::size_t i) const {
  const auto& flat = leaves_[i].flat;
  return at::empty({0}, flat.options()).set_(flat.storage(), 0, {plan_.weights[i].sharding.full_elements}, {1});
}

void FullParameters::take_memory() {
  if (!plan_.shards_param) return;
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    set_storage_bytes(leaves_[i].flat, static_cast<std::size_t>(plan_.buffer(Purpose::full_parameters, i)->bytes()));
}

void FullParameters::free_memory(bool foreign) {
  for (auto& leaf : leaves_) {
    if (foreign) note_use(leaf.flat);
    set_storage_bytes(leaf.flat, 0);
  }
}

void FullParameters::note_new_values() {
  for (auto& leaf : leaves_) leaf.tensor.unsafeGetTensorImpl()->bump_version();
}

void FullParameters::drop_gradients() {
  for (auto& leaf : leaves_) {
    leaf.tensor.mutable_grad().reset();
    leaf.table.mutable_grad().reset();
  }
}

void FullParameters::add_held(HeldMemory& memory) const {
  for (const auto& leaf : leaves_) memory.add(Purpose::full_parameters, leaf.flat, false, plan_.shards_param);
}

}  // namespace capstan::shard
