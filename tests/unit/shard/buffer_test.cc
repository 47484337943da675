#include "shard/buffer.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

namespace buffer_test {

using namespace capstan;
using shard::Buffer;
using shard::Memory;
using shard::Purpose;

TEST_CASE("a buffer is found by its purpose, and by its weight where it has one") {
  const shard::Buffers buffers{{Purpose::master, 64},
                               {Purpose::optimizer_state, 64, at::kFloat, Memory::host, {}, 0},
                               {Purpose::optimizer_state, 128, at::kFloat, Memory::host, {}, 1}};
  CHECK(shard::find(buffers, Purpose::master)->elements == 64);
  CHECK(shard::find(buffers, Purpose::optimizer_state, 1)->elements == 128);
  CHECK(shard::find(buffers, Purpose::optimizer_state, 2) == nullptr);
  CHECK(shard::find(buffers, Purpose::send_on_host) == nullptr);
}

TEST_CASE("a buffer's bytes are what is allocated, zero where padding must be") {
  const c10::Device cpu(c10::DeviceType::CPU);
  for (const auto memory : {Memory::device, Memory::host, Memory::pinned_host}) {
    const Buffer buffer{Purpose::master, 192, at::kBFloat16, memory};
    CHECK(buffer.bytes() == 384);
    CHECK(buffer.is_on_host() == (memory != Memory::device));
    const auto tensor = shard::allocate(buffer, cpu);
    CHECK(tensor.sizes() == at::IntArrayRef{192});
    CHECK(tensor.scalar_type() == at::kBFloat16);
    CHECK(tensor.is_cpu());
    CHECK(tensor.eq(0).all().item<bool>());
  }
  CHECK(shard::allocate({Purpose::master, 64}, c10::Device(c10::DeviceType::Meta)).is_meta());
  CHECK(shard::allocate({Purpose::master, 64, at::kFloat, Memory::host}, c10::Device(c10::DeviceType::Meta)).is_cpu());
  CHECK(shard::allocate({Purpose::gather_staging, 0}, cpu).numel() == 0);
}

}  // namespace buffer_test
