#include "shard/bucket_parameters.h"

#include "shard/packing.h"

namespace capstan::shard {

void Masters::allocate() {
  const auto allocated = [&](Purpose purpose) {
    const auto* buffer = plan_.buffer(purpose);
    return buffer ? shard::allocate(*buffer, shared_.device()) : at::Tensor();
  };
  all_ = allocated(Purpose::master);
  packed_ = allocated(Purpose::packed);
  host_send_ = allocated(Purpose::send_on_host);
  send_copy_ = allocated(Purpose::send_on_device);
  if (plan_.parameters.send_from == SendFrom::host) send_copy_ = host_send_.defined() ? host_send_ : all_;
  if (!all_.defined() && !packed_.defined()) {
    // The masters are the full parameters themselves, viewed with their padding.
    for (std::size_t i = 0; i < plan_.weights.size(); ++i) slice(i, false).zero_();
  }
  // Buffers on the device are zeros by work of this stream, which the stream of copies to them does not wait for later.
  if (plan_.on_host) {
    const SideStream::Use after_zeros(shared_.streams.transfer);
  }
}

at::Tensor Masters::slice(std::size_t i, bool unpadded) const {
  const auto& planned = plan_.weights[i];
  if (plan_.parameters.gathers()) return planned.of_shard(all_);
  if (all_.defined()) return unpadded ? planned.of_full(all_) : planned.padded_of_full(all_);
  return unpadded ? full_.flat(i) : full_.padded(i);
}

optimizer::Slice Masters::views(const OwnedSlice& owned, const at::Tensor& gradient, double lr, bool copies) const {
  const bool unpadded = plan_.gradients.autograd;
  optimizer::Slice out;
  out.weight = &*plan_.weights[owned.weight].weight;
  out.record = owned.record;
  out.box = owned.box;
  out.lr = lr * owned.group->lr_factor;
  out.weight_decay = owned.weight_decay;
  out.master = owned.of(slice(owned.weight, unpadded));
  out.grad = owned.of(gradient);
  out.state = owned.state;
  if (copies && owned.group->rule->is_fused()) out.copy = owned.of(copy_slice(owned.weight, unpadded));
  return out;
}

at::Tensor Masters::copy_slice(std::size_t i, bool unpadded) const {
  if (!all_.defined()) return {};
  if (plan_.parameters.gathers()) {
    const auto& copy = plan_.on_host ? host_send_ : send_copy_;
    return copy.defined() ? plan_.weights[i].of_shard(copy) : at::Tensor();
  }
  return unpadded ? full_.flat(i) : full_.padded(i);
}

void Masters::publish(bool copied) {
  if (copied || plan_.on_host || !all_.defined()) return;
  if (plan_.parameters.gathers()) {
    if (send_copy_.defined()) send_copy_.copy_(all_);
    return;
  }
  Moves moves;
  for (std::size_t i = 0; i < plan_.weights.size(); ++i) moves.add(full_.flat(i), slice(i, true));
  moves.run(true);
}

void Masters::publish_from_host() {
  cast_to_send(0, plan_.shard_elements);
  send_up();
}

void Masters::cast_to_send(std::int64_t begin, std::int64_t elements) {
  if (host_send_.defined()) host_send_.narrow(0, begin, elements).copy_(all_.narrow(0, begin, elements));
}

void Masters::send_up() {
  if (plan_.parameters.send_from != SendFrom::device_copy) return;
  const SideStream::Use on_stream(shared_.streams.transfer, false);
  send_copy_.copy_(host_send_.defined() ? host_send_ : all_, /*non_blocking=*/true);
  uploaded_.record(shared_.device());
}

at::Tensor Masters::to_send() const {
  if (!send_copy_.defined()) return all_;
  uploaded_.wait(shared_.device());
  return send_copy_.to(shared_.device(), /*non_blocking=*/true);
}

at::Tensor Masters::packed_slice(std::size_t i) const {
  const auto& records = plan_.weights[i].packed;
  return packed_.narrow(0, records.front().begin, records.back().begin + records.back().bytes - records.front().begin);
}

// One storage may serve two purposes: the first one counts.
void Masters::add_held(HeldMemory& memory) const {
  memory.add(Purpose::master, all_, plan_.on_host);
  memory.add(Purpose::packed, packed_, plan_.on_host);
  memory.add(Purpose::send_on_host, host_send_, true);
  memory.add(Purpose::send_on_device, send_copy_);
}

}  // namespace capstan::shard
