// The divergence from a teacher on a GPU, whose products are of 16-bit numbers, against float64 on the CPU.
#include "plugins/objectives/distill/divergence.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

using capstan::ops::ignored_label;
using distill::chunked_linear_divergence;
using distill::TeacherStates;
using distill::TeacherWords;

namespace {

constexpr std::int64_t rows = 70, size = 96, vocabulary = 1000, most = 8;

at::Tensor numbers(std::int64_t count, std::int64_t columns, double step) {
  return at::arange(count * columns, at::kDouble).mul(step).sin().mul(0.5).view({count, columns});
}

/// The loss, then the gradients of states and matrix, by either kind of teacher, in `type` on `device`.
std::vector<at::Tensor> learnt(bool of_words, at::ScalarType type, at::Device device) {
  // What 16 bits hold, in all dtypes.
  const auto rounded = [&](const at::Tensor& x) { return x.to(at::kBFloat16).to(at::kHalf).to(at::kDouble); };
  const auto there = [&](const at::Tensor& x) { return rounded(x).to(device, type); };
  const auto hidden = there(numbers(rows, size, 1.3)).set_requires_grad(true);
  const auto weight = there(numbers(vocabulary, size, 0.37)).set_requires_grad(true);
  const auto labels = at::arange(rows, at::kLong).mul(37).remainder(vocabulary);
  labels.slice(0, 5, 20).fill_(ignored_label);
  const auto teacher_hidden = numbers(rows, size, 0.71), teacher_weight = numbers(vocabulary, size, 0.53);
  const auto p = at::log_softmax(rounded(teacher_hidden).mm(rounded(teacher_weight).t()) / 2, 1);
  const auto [values, ids] = p.topk(most, 1);
  const auto place = [&](const at::Tensor& x) { return x.to(device); };
  const auto loss =
      of_words ? chunked_linear_divergence(hidden, weight, place(labels), TeacherWords{place(ids), place(values)},
                                           {.temperature = 2, .chunk_rows = 32})
               : chunked_linear_divergence(hidden, weight, place(labels),
                                           TeacherStates{there(teacher_hidden), there(teacher_weight)},
                                           {.temperature = 2, .chunk_rows = 32});
  auto all = torch::autograd::grad({loss * 0.3}, {hidden, weight});
  all.insert(all.begin(), loss.detach());
  for (auto& x : all) x = x.cpu().to(at::kDouble);
  return all;
}

}  // namespace

TEST_CASE("GPU: the divergence from a teacher equals float64 on the CPU", "[products]") {
  const bool of_words = GENERATE(true, false);
  const auto expected = learnt(of_words, at::kDouble, at::kCPU);
  const at::ScalarType types[] = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf};
  const double bounds[] = {1e-12, 1e-5, 1.0 / 64, 1.0 / 512};
  for (int i = 0; i < 4; ++i) {
    const auto found = learnt(of_words, types[i], at::kCUDA);
    CHECK(found[0].item<double>() == Approx(expected[0].item<double>()).epsilon(i == 0 ? 1e-12 : 1e-4));
    for (std::size_t k = 1; k < found.size(); ++k) {
      const auto apart = (found[k] - expected[k]).abs().max() / expected[k].abs().max();
      CHECK(apart.item<double>() < bounds[i]);
    }
  }
}
