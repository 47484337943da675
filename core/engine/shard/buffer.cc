#include "shard/buffer.h"

#include <ATen/ATen.h>
#include <capstan/ops/pinned.h>

#include <algorithm>

namespace capstan::shard {

const Buffer* find(const Buffers& buffers, Purpose purpose, std::size_t weight) {
  const auto found = std::find_if(buffers.begin(), buffers.end(), [&](const Buffer& buffer) {
    return buffer.purpose == purpose && buffer.weight == weight;
  });
  return found == buffers.end() ? nullptr : &*found;
}

at::Tensor allocate(const Buffer& buffer, c10::Device device) {
  if (buffer.is_on_host())
    return ops::host_zeros(buffer.elements, buffer.dtype, buffer.memory == Memory::pinned_host, device);
  const auto options = at::TensorOptions().dtype(buffer.dtype).device(device);
  const bool is_overwritten = buffer.purpose == Purpose::full_parameters || buffer.purpose >= Purpose::gather_staging;
  return is_overwritten ? at::empty({buffer.elements}, options) : at::zeros({buffer.elements}, options);
}

}  // namespace capstan::shard
