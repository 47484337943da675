// The second run of attention gives what the first one gave, whatever its inputs are, and has the kernel's gradients.
#include "plugins/strategies/recompute/attention_results.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

namespace attention_results_test {

using namespace capstan;
using recompute::AttentionResults;

namespace {

at::Tensor numbers(std::int64_t rows) {
  return at::arange(rows * 2 * 8, at::kFloat).sin().view({1, 2, rows, 8}).contiguous();
}

at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  return at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true);
}

at::Tensor first_run(AttentionResults& results, const at::Tensor& x) {
  const at::NoGradGuard no_grad;
  return results.run([&] { return attend(x, x, x); });
}

std::vector<at::Tensor> gradients(const at::Tensor& out, const std::vector<at::Tensor>& inputs) {
  return torch::autograd::grad({out}, inputs, {at::ones_like(out)});
}

}  // namespace

TEST_CASE("the second run takes the first one's results, and backward's gradients are the kernel's") {
  const auto x = numbers(16);
  const auto q = x.clone().requires_grad_(true), k = (x * 2).requires_grad_(true), v = (x * 3).requires_grad_(true);
  const auto plain = attend(q, k, v);
  const auto wanted = gradients(plain, {q, k, v});
  const bool is_away = GENERATE(false, true);
  int kept = 0;
  AttentionResults results(is_away ? strategy::KeepInput([&](const at::Tensor& out) {
    ++kept;
    return [copy = out.clone()] { return copy; };
  })
                                   : strategy::KeepInput());
  {
    const at::NoGradGuard no_grad;
    CHECK(at::equal(results.run([&] { return attend(q, k, v); }), plain));
  }
  CHECK(kept == (is_away ? 1 : 0));
  const auto again = results.run([&] { return attend(q, k, v); });
  CHECK(at::equal(again, plain));
  const auto got = gradients(again, {q, k, v});
  for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(at::equal(got[i], wanted[i]));
}

TEST_CASE("the kernel does not run again: other inputs do not change what it gave") {
  const auto x = numbers(16);
  AttentionResults results({});
  const auto first = first_run(results, x);
  const auto other = (x + 1).requires_grad_(true);
  const auto second = results.run([&] { return attend(other, other, other); });
  CHECK(at::equal(second, first));
  // What is kept has been taken.
  CHECK_FALSE(at::equal(results.run([&] { return attend(other, other, other); }), first));
}

TEST_CASE("calls of several kernels are kept in their order; outside nothing is") {
  const auto x = numbers(16), y = numbers(24);
  AttentionResults results({});
  const auto both = [&] {
    const at::NoGradGuard no_grad;
    return results.run([&] { return at::cat({attend(x, x, x), attend(y, y, y)}, 2); });
  }();
  const auto zeros = at::zeros_like(x).requires_grad_(true), more = at::zeros_like(y).requires_grad_(true);
  const auto again = results.run([&] { return at::cat({attend(zeros, zeros, zeros), attend(more, more, more)}, 2); });
  CHECK(at::equal(again, both));
  CHECK(at::equal(attend(zeros, zeros, zeros), at::zeros_like(x)));
}

}  // namespace attention_results_test
