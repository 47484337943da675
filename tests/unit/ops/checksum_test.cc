#include "ops/checksum.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <capstan_catch.h>

#include <cmath>
#include <limits>

namespace checksum_test {

using namespace capstan;

namespace {

std::int64_t checksum(const at::Tensor& x) {
  auto out = at::zeros({1}, at::kLong);
  ops::checksums(out, {x});
  return out.item<std::int64_t>();
}

}  // namespace

TEST_CASE("a checksum changes with each bit and with the order, and not with the number of threads") {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    INFO(c10::toString(type));
    const auto x = at::arange(0, 200000, at::kDouble).mul(0.001).cos().to(type);
    const auto whole = checksum(x);
    CHECK(checksum(x.clone()) == whole);
    at::set_num_threads(1);
    CHECK(checksum(x) == whole);
    at::set_num_threads(2);
    for (const std::int64_t at : {0, 4095, 4096, 199999}) {
      auto other = x.clone();
      auto* const bytes = static_cast<char*>(other.data_ptr()) + at * other.element_size();
      *bytes = static_cast<char*>(bytes)[0] ^ 1;  // the lowest bit of one element
      CHECK(checksum(other) != whole);
    }
    CHECK(checksum(x.flip(0)) != whole);
    CHECK(checksum(x.narrow(0, 0, 199999)) != whole);
  }
}

TEST_CASE("a checksum is of bits: signs of zero and of what is not a number count") {
  const auto zeros = at::zeros({3}, at::kFloat);
  auto negative = zeros.clone();
  negative[1] = -0.0;
  CHECK(checksum(zeros) != checksum(negative));
  const auto nans = at::full({3}, std::numeric_limits<float>::quiet_NaN());
  CHECK(checksum(nans) == checksum(nans.clone()));
  CHECK(checksum(at::empty({0}, at::kFloat)) == 0);
}

TEST_CASE("many tensors of several dtypes have the checksums that each has by itself") {
  std::vector<at::Tensor> xs;
  for (std::int64_t i = 0; i < 70; ++i)
    xs.push_back(at::arange(i, i + 100 * i % 977, at::kFloat).to(i % 2 ? at::kFloat : at::kBFloat16));
  auto out = at::full({70}, 5, at::kLong);
  ops::checksums(out, xs);
  for (std::int64_t i = 0; i < 70; ++i) CHECK(out[i].item<std::int64_t>() == checksum(xs[static_cast<std::size_t>(i)]));
}

}  // namespace checksum_test
