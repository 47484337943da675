// The gate after the gated delta rule's norm: its formula, its gradient in the same bits, and what backward keeps.
#include "models/qwen3_5/gate.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/jacobian.h"
#include "plugins/strategies/recompute/memory.h"

namespace gate_test {

using capstan::testing::jacobian_error;
using capstan::testing::LiveBytes;

namespace {

at::Tensor numbers(double phase, at::ScalarType type) {
  return at::arange(2 * 3 * 4 * 8, at::kDouble).mul(0.7).add(phase).sin().mul(3).view({2, 3, 4, 8}).to(type);
}

at::Tensor by_formula(const at::Tensor& x, const at::Tensor& z) {
  const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return (x.to(type) * at::silu(z.to(type))).to(x.scalar_type());
}

}  // namespace

TEST_CASE("the gate is its formula in every dtype, values and gradients bit by bit") {
  const auto type = GENERATE(at::kDouble, at::kFloat, at::kBFloat16);
  const auto of = [&](const auto& gate) {
    const auto x = numbers(0.1, type).requires_grad_(), z = numbers(0.4, type).requires_grad_();
    const auto out = gate(x, z);
    torch::autograd::backward({out}, {numbers(0.9, type)});
    return std::vector<at::Tensor>{out.detach(), x.grad(), z.grad()};
  };
  const auto got = of(qwen3_5::gated_by), wanted = of(by_formula);
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(at::equal(got[i], wanted[i]));
}

TEST_CASE("the gate's gradients are the numeric ones") {
  const auto error = jacobian_error([](const auto& in) { return qwen3_5::gated_by(in[0], in[1]); },
                                    {numbers(0.1, at::kDouble), numbers(0.4, at::kDouble)});
  CHECK(error < 1e-8);
}

TEST_CASE("backward of the gate keeps nothing besides its inputs") {
  const auto x = numbers(0.1, at::kBFloat16).requires_grad_(), z = numbers(0.4, at::kBFloat16).requires_grad_();
  at::Tensor out;
  const LiveBytes bytes;
  const auto before = bytes.now();
  out = qwen3_5::gated_by(x, z);
  CHECK(bytes.now() - before == static_cast<std::int64_t>(out.nbytes()));
}

}  // namespace gate_test
