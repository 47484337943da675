#include <capstan/ops/pinned.h>

#include <ATen/ATen.h>
#include <capstan_catch.h>

namespace pinned_test {

using capstan::ops::host_zeros;

TEST_CASE("memory that is not to be pinned, has no elements or is for a CPU needs no GPU") {
  const c10::Device cpu(c10::DeviceType::CPU), gpu(c10::DeviceType::CUDA, 0);
  CHECK(at::equal(host_zeros(5, at::kFloat, true, cpu), at::zeros({5}, at::kFloat)));
  CHECK(at::equal(host_zeros(5, at::kBFloat16, false, gpu), at::zeros({5}, at::kBFloat16)));
  CHECK(host_zeros(0, at::kFloat, true, gpu).numel() == 0);
}

}  // namespace pinned_test
