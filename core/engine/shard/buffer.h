#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <cstddef>
#include <cstdint>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// What a buffer of the engine holds.
enum class Purpose {
  full_parameters,    ///< a weight that forward and backward compute with
  master,             ///< the values that the rule updates; for a frozen weight its values
  packed,             ///< a frozen weight's values as its codec keeps them
  packed_gathered,    ///< all ranks' packed shards, for one all-gather
  send_on_host,       ///< the shard in the compute dtype, cast from masters in host memory
  send_on_device,     ///< the shard in the compute dtype, made once an update
  send_temporary,     ///< the shard in the compute dtype, made for one all-gather
  regather,           ///< the part of the parameters from which backward's gather starts: reshard_size
  gradient_full,      ///< full gradients, summed over micro-steps or ranks
  gradient_shard,     ///< this rank's shard of the sum over ranks
  gradient_autograd,  ///< autograd's own tensors, read by norm and rule; not the engine's to allocate
  gradient_on_host,   ///< this rank's shard of the sum, in host memory
  optimizer_state,    ///< one of the rule's states of a slice (shard/slices.h)
  // Staging buffers; shared by all buckets, each used by one stream in order.
  gather_staging,   ///< all ranks' shards after an all-gather
  reduce_staging,   ///< full gradients or all ranks' shards before a reduction
  sum_staging,      ///< a reduction's result, if its dtype differs or it is accumulated
  partial_staging,  ///< gradients of records that are partial sums
  offload_staging,  ///< a shard of the sum until it is in host memory
  return_staging    ///< an earlier micro-steps' sum, copied back from host memory
};

enum class Memory { device, host, pinned_host };

/// When a buffer's memory is allocated.
enum class Lifetime {
  always,
  acquired,   ///< from a bucket's prefetch or acquire to its release
  gathering,  ///< while its all-gather runs
  regather    ///< from forward to the gather for backward
};

/// Memory of the engine. The engine allocates by these and predictions add them up: no size is computed twice.
struct Buffer {
  Purpose purpose;
  std::int64_t elements = 0;
  c10::ScalarType dtype = c10::ScalarType::Float;
  Memory memory = Memory::device;
  Lifetime lifetime = Lifetime::always;
  std::size_t weight = 0;  ///< for full_parameters, gradient_autograd, optimizer_state: which one of the bucket's

  std::int64_t bytes() const { return elements * static_cast<std::int64_t>(c10::elementSize(dtype)); }
  bool is_on_host() const { return memory != Memory::device; }
};

using Buffers = std::vector<Buffer>;

/// Null if there is none.
const Buffer* find(const Buffers& buffers, Purpose purpose, std::size_t weight = 0);

/// [elements]; `device` is the run's. Zeros, since padding must be zero; staging and full parameters are uninitialised.
at::Tensor allocate(const Buffer& buffer, c10::Device device);

}  // namespace shard
CAPSTAN_END_NAMESPACE
