#include "ops/peer_memory.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "ops/operators.h"

namespace capstan::ops {
namespace {

/// A tensor of this process; the rank that reads it takes a reference of its own.
struct LocalAddress {
  std::int64_t process;
  c10::TensorImpl* tensor;
};

at::Tensor peer_address_cpu(const at::Tensor& memory) {
  const LocalAddress address{::getpid(), memory.unsafeGetTensorImpl()};
  at::Tensor bytes = at::empty({sizeof(address)}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), &address, sizeof(address));
  return bytes;
}

at::Tensor peer_tensor_cpu(const at::Tensor& address, const at::Tensor& like) {
  LocalAddress where{};
  TORCH_CHECK(address.numel() == sizeof(where), "not an address of CPU memory");
  std::memcpy(&where, address.const_data_ptr(), sizeof(where));
  if (where.process != ::getpid()) return at::empty({0}, like.options());
  return at::Tensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(where.tensor));
}

void copy_pieces_cpu(at::TensorList to, at::TensorList from) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
}

template <class Signature>
auto peer_operation(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  m.def("peer_address(Tensor memory) -> Tensor");
  m.def("peer_tensor(Tensor address, Tensor like) -> Tensor");
  m.def("copy_pieces(Tensor(a!)[] to, Tensor[] from) -> ()");
}

TORCH_LIBRARY_IMPL(capstan, CPU, m) {
  m.impl("peer_address", &peer_address_cpu);
  m.impl("copy_pieces", &copy_pieces_cpu);
}

at::Tensor peer_address(const at::Tensor& memory) {
  static const auto op = peer_operation<PeerAddress>("capstan::peer_address");
  return op.call(memory);
}

// By the device of `like`: the address is on the CPU.
at::Tensor peer_tensor(const at::Tensor& address, const at::Tensor& like) {
  if (like.is_cpu()) {
    auto tensor = peer_tensor_cpu(address, like);
    return tensor.numel() == like.numel() ? tensor : at::Tensor();
  }
  static const auto op = peer_operation<PeerTensor>("capstan::peer_tensor");
  auto tensor = op.redispatch(c10::DispatchKeySet(c10::DispatchKey::CUDA), address, like);
  return tensor.numel() == like.numel() ? tensor : at::Tensor();
}

void copy_pieces(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
  if (to.empty()) return;
  static const auto op = peer_operation<CopyPieces>("capstan::copy_pieces");
  op.call(to, from);
}

}  // namespace capstan::ops
