// States and updates are those of bitsandbytes' kernel: see make_vectors.py.
#include <capstan_catch.h>

#include <cmath>

#include "plugins/optimizers/adam8bit/blocks.h"
#include "plugins/optimizers/adam8bit/operator.h"
#include "tests/plugins/optimizers/adam8bit/slices.h"

namespace vectors_test {

using namespace adam8bit_test;

namespace {

#include "vectors.inc"

constexpr std::int64_t size = static_cast<std::int64_t>(sizeof(params_1) / sizeof(float));

// As make_vectors.py has it.
at::Tensor known_gradients(std::int64_t number) {
  const auto grad = at::empty({size}, at::kFloat);
  for (std::int64_t i = 0; i < size; ++i) {
    const auto mixed = (i * 7919 + number * 104729 + i * i % 8191 * 31) % 65536 - 32768;
    grad[i] = std::ldexp(static_cast<double>(mixed), -static_cast<int>(20 + (i * 5 + number) % 13));
  }
  return grad;
}

template <class T, std::size_t n>
bool holds(const at::Tensor& tensor, const T (&expected)[n]) {
  return std::equal(std::begin(expected), std::end(expected), tensor.const_data_ptr<T>());
}

// Each within a millionth of the update's size: the two differ in the rounding of single operations.
template <std::size_t n>
bool is_near(const at::Tensor& master, const float (&expected)[n]) {
  const auto there = at::from_blob(const_cast<float*>(expected), {static_cast<std::int64_t>(n)}, at::kFloat);
  return (master - there).abs().max().item<float>() < 1e-6;
}

template <std::size_t n>
bool is_near_scale(const at::Tensor& scales, const float (&expected)[n]) {
  const auto there = at::from_blob(const_cast<float*>(expected), {static_cast<std::int64_t>(n)}, at::kFloat);
  return ((scales - there) / there).abs().max().item<float>() < 1e-6;
}

}  // namespace

TEST_CASE("adam8bit: four steps give bitsandbytes' codes, scales and parameters") {
  const auto bytes = [](std::int64_t n) { return at::zeros({n}, at::kByte); };
  const auto scales = [] { return at::zeros({adam8bit::blocks_of(size)}, at::kFloat); };
  const auto params = (at::arange(size) % 17 - 8).to(at::kFloat) * 0.125F;
  adam8bit::Slices slices;
  slices.masters = {params};
  slices.states = {bytes(size), scales(), bytes(size), scales()};
  slices.lr = {1e-2};
  slices.weight_decay = {0.1};
  const auto check = [&](std::int64_t number, const auto& codes, const auto& square_codes, const auto& scale,
                         const auto& square_scale, const auto& expected) {
    INFO("step " << number);
    slices.gradients = {known_gradients(number)};
    const auto update = step(number, /*grad_scale=*/2);
    adam8bit::update(slices, {0.9F, 0.98F, 1e-8}, {update.count, update.grad_scale, update.skip});
    CHECK(holds(slices.states[0], codes));
    CHECK(is_near_scale(slices.states[1], scale));
    CHECK(holds(slices.states[2], square_codes));
    CHECK(is_near_scale(slices.states[3], square_scale));
    CHECK(is_near(params, expected));
  };
  check(1, codes1_1, codes2_1, scales1_1, scales2_1, params_1);
  check(2, codes1_2, codes2_2, scales1_2, scales2_2, params_2);
  check(3, codes1_3, codes2_3, scales1_3, scales2_3, params_3);
  check(4, codes1_4, codes2_4, scales1_4, scales2_4, params_4);
}

}  // namespace vectors_test
