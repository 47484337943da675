#include "plugins/strategies/fp8/feed_forward.h"

#include <ATen/ATen.h>
#include <capstan/ops/swiglu.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "plugins/strategies/fp8/layers.h"
#include "plugins/strategies/fp8/numbers.h"

namespace feed_forward_test {

using namespace fp8;
using namespace capstan;
using fp8_test::drawn;
using fp8_test::frozen;

namespace {

const fp8_test::Recipe coarse{.gradient = at::kFloat8_e5m2};

}  // namespace

TEST_CASE("a frozen feed-forward layer is its parts in turn") {
  at::manual_seed(7);
  const auto check = [](const at::Tensor& x, const at::Tensor& y, const at::Tensor& expected) {
    CHECK(at::equal(y, expected));
    const auto g = drawn(y.sizes());
    CHECK(at::equal(torch::autograd::grad({y}, {x}, {g})[0], torch::autograd::grad({expected}, {x}, {g})[0]));
  };
  const auto x = drawn({3, 5, 32}).requires_grad_(), w_up = drawn({96, 32}), w_down = drawn({32, 48});
  const FeedForward one{frozen(w_up, coarse), frozen(w_down, coarse)};
  CHECK(FeedForward::takes(*one.up, *one.down));
  check(x, one.multiply(x, w_up, w_down),
        Multiplier::multiply(one.down, ops::swiglu(Multiplier::multiply(one.up, x, w_up)), w_down));
  CHECK_FALSE(one.multiply(x.detach(), w_up, w_down).requires_grad());

  const auto rows = drawn({9, 32}).requires_grad_(), stack_up = drawn({2, 96, 32}), stack_down = drawn({2, 32, 48});
  const auto ends = at::tensor({4, 9}, at::kInt);
  const FeedForward experts{frozen(stack_up, coarse), frozen(stack_down, coarse)};
  const auto inner = ops::swiglu(Multiplier::multiply_grouped(experts.up, rows, stack_up, ends));
  check(rows, experts.multiply(rows, stack_up, stack_down, ends),
        Multiplier::multiply_grouped(experts.down, inner, stack_down, ends));

  one.up->weight->records().front().trainable = true;
  CHECK_FALSE(FeedForward::takes(*one.up, *one.down));
}

}  // namespace feed_forward_test
