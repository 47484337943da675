// What decoder blocks compute besides their products, and AdamW: CUDA against the plain references.
#include <ATen/ATen.h>
#include <capstan/ops/grouped.h>
#include <capstan/ops/rotary.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include <capstan/ops/linear.h>
#include "gpu/compare.h"
#include "nn/weights.h"
#include "ops/add_norm.h"
#include "ops/column_sums.h"
#include "ops/combine_rows.h"
#include "ops/scaled.h"
#include "ops/weight_gradients.h"
#include "plugins/libraries/adamw/lists.h"
#include "plugins/strategies/lora/low_rank.h"

using namespace capstan::ops;
using capstan::testing::numbers;

namespace {

// A rounding of each type's own results, and some of float32's in the sums before.
const double roundings[] = {1e-12, 4e-6, 1.0 / 128, 1.0 / 1024};

/// `function` on the GPU in every dtype against itself on the CPU in float64, from the same rounded numbers.
void check_types(const Function& function, const Inputs& inputs, double loosen = 1) {
  for (int i = 0; i < 4; ++i) {
    INFO(i);
    Inputs narrow, wide;
    for (const auto& input : inputs) {
      narrow.push_back(on_gpu(input.to(float_types[i])));
      wide.push_back(input.to(float_types[i]).to(at::kDouble));
    }
    const auto got = all_of(function, narrow), wanted = all_of(function, wide);
    for (std::size_t k = 0; k < got.size(); ++k) {
      INFO(k);
      CHECK(got[k].scalar_type() == float_types[i]);
      CHECK(distance(got[k], wanted[k]) < loosen * roundings[i]);
    }
  }
}

std::vector<double> some_frequencies(int half) {
  std::vector<double> list;
  for (int i = 0; i < half; ++i) list.push_back(std::pow(1e4, -static_cast<double>(i) / half));
  return list;
}

}  // namespace

// The sum is rounded before the norm: two roundings.
TEST_CASE("GPU: a sum and its norm, of rows that packs of 16 bytes hold and of others") {
  for (const std::int64_t columns : {8, 64, 1024, 4096, 4104, 5120, 8192, 32768, 37}) {
    INFO(columns);
    const auto x = numbers({3, 5, columns}, 0.1), y = numbers({3, 5, columns}, 0.5);
    const auto weight = numbers({columns}, 0.9), bias = numbers({columns}, 0.3);
    const auto both = [](const Normed& normed) { return at::cat({normed.sum, normed.normed}, -1); };
    check_types(
        [&](const Inputs& in) {
          return both(add_norm(in[0], in[1], {in[2], in[3], 1e-5}));
        },
        {x, y, weight, bias}, 4);
    check_types([&](const Inputs& in) { return both(add_norm(in[0], in[1], {in[2], {}, 1e-5})); }, {x, y, weight}, 4);
    check_types([&](const Inputs& in) { return both(add_norm(in[0], {}, {in[1], {}, 1e-5})); }, {x, weight}, 4);
    check_types(
        [&](const Inputs& in) {
          return both(add_norm(in[0], in[1], {in[2], {}, 1e-5, true}));
        },
        {x, y, weight}, 4);
    check_types(
        [&](const Inputs& in) {
          return add_norm(in[0], {}, {in[1], in[2], 1e-5}).normed;
        },
        {x, weight, bias}, 4);
  }
}

TEST_CASE("GPU: the sum is at::add's bit for bit, also of more rows than a launch has thread blocks at once") {
  const auto x = on_gpu(numbers({70001, 64}, 0.1).to(at::kBFloat16)),
             y = on_gpu(numbers({70001, 64}, 0.4).to(at::kBFloat16));
  const auto weight = at::ones({64}, x.options());
  const auto normed = add_norm(x, y, {weight, {}, 1e-5});
  CHECK(at::equal(normed.sum, x + y));
  CHECK(distance(normed.normed, at::rms_norm(x + y, {64}, weight, 1e-5)) <= 1.0 / 128);
}

// Both round once; the sines of the two libraries differ by units in the last place.
TEST_CASE("GPU: heads turn in a fused projection's memory, in packs and one by one") {
  for (const int dim : {128, 64, 12}) {
    INFO(dim);
    const auto where = at::arange(10, at::kLong).mul(37).view({2, 5});
    const auto frequencies = some_frequencies(dim / 2);
    const auto function = [&](const Inputs& in) {
      const auto at = where.to(in[0].device());
      const auto parts = rotary_heads_(in[0] * 1, 5, 2, at, frequencies);
      return at::cat({parts.v, parts.k, parts.q}, 2);
    };
    for (int i = 0; i < 4; ++i) {
      const auto fused = numbers({2, 5, 9, dim}, 0.1).to(float_types[i]);
      const auto got = all_of(function, {on_gpu(fused)}), wanted = all_of(function, {fused});
      const double bounds[] = {1e-12, 2e-5, 1.0 / 256, 1.0 / 2048};
      for (std::size_t k = 0; k < got.size(); ++k) CHECK(distance(got[k], wanted[k]) <= bounds[i]);
    }
  }
}

TEST_CASE("GPU: rows combine to tokens, and copies add up") {
  for (const std::int64_t columns : {512, 4096, 37}) {
    INFO(columns);
    const std::int64_t tokens = 33, copies = 3;
    const auto order = at::randperm(tokens * copies, at::kLong);
    const auto place = at::empty_like(order).scatter_(0, order, at::arange(order.numel(), at::kLong));
    const auto function = [&](const Inputs& in) {
      const auto device = in[0].device();
      return combine_rows(in[0], {place.to(device), order.to(device)}, in[1]);
    };
    check_types(function, {numbers({tokens * copies, columns}, 0.1), numbers({tokens, copies}, 0.4)}, 2);
    const auto permuted = [&](const Inputs& in) {
      const auto device = in[0].device();
      return permute_rows(in[0], order.to(device), place.to(device), copies);
    };
    check_types(permuted, {numbers({tokens, columns}, 0.1)}, 2);
  }
}

// Sums of up to 9,000 numbers of order 1 in float32.
TEST_CASE("GPU: columns are summed, and the gradients of a norm's weights, in packs and one by one") {
  for (const auto& [rows, columns] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 8}, {7, 264}, {9000, 64}, {300, 4096}, {513, 37}, {2048, 3072}}) {
    INFO(rows << " x " << columns);
    for (int i = 0; i < 4; ++i) {
      const auto x = numbers({rows, columns}, 0.1).to(float_types[i]),
                 of = numbers({rows, columns}, 0.6).to(float_types[i]);
      const auto wide = x.to(at::kDouble);
      const auto bound = roundings[i] * (wide.abs().sum(0).max() / wide.sum(0).abs().max()).item<double>();
      CHECK(distance(column_sums(on_gpu(x)), wide.sum(0)) <= bound);
      const auto statistic = float_types[i] == at::kDouble ? at::kDouble : at::kFloat;
      const auto mean = numbers({rows, 1}, 0.2).to(statistic),
                 rstd = numbers({rows, 1}, 0.9).abs().add(0.5).to(statistic);
      for (const bool has_mean : {true, false}) {
        const auto centred = has_mean ? of.to(at::kDouble) - mean : of.to(at::kDouble);
        const auto terms = wide * centred * rstd;
        const auto got = norm_weight_gradients(on_gpu(x), on_gpu(of),
                                               has_mean ? std::optional(on_gpu(mean)) : std::nullopt, on_gpu(rstd));
        const auto loosened = roundings[i] * (terms.abs().sum(0).max() / terms.sum(0).abs().max()).item<double>();
        CHECK(distance(got.weight, terms.sum(0)) <= loosened);
        if (has_mean) CHECK(distance(got.bias, wide.sum(0)) <= bound);
        if (!has_mean) CHECK_FALSE(got.bias.defined());
      }
    }
  }
}

TEST_CASE("GPU: linear is ATen's bit for bit, but for the order of the bias's sums", "[products]") {
  for (const auto type : float_types) {
    const Inputs in{on_gpu(numbers({2, 24, 64}, 0.1).to(type)), on_gpu(numbers({96, 64}, 0.5).to(type)),
                    on_gpu(numbers({96}, 0.7).to(type))};
    const auto got = all_of([](const Inputs& x) { return capstan::ops::linear(x[0], x[1], x[2]); }, in);
    const auto wanted = all_of([](const Inputs& x) { return at::linear(x[0], x[1], x[2]); }, in);
    for (std::size_t k = 0; k < 3; ++k) CHECK(at::equal(got[k], wanted[k]));
    CHECK(distance(got[3], wanted[3]) <= (type == at::kDouble ? 1e-13 : type == at::kFloat ? 1e-5 : 1.0 / 128));
  }
}

TEST_CASE("GPU: a low-rank adapter is added as addmm_ adds it, bit for bit", "[products]") {
  const Inputs in{on_gpu(numbers({2, 24, 96}, 0.1).to(at::kBFloat16)), on_gpu(numbers({48, 16}, 0.5).to(at::kBFloat16)),
                  on_gpu(numbers({32, 16}, 0.7).to(at::kBFloat16))};
  const auto own = [](const Inputs& x) { return lora::add_low_rank_(x[0] * 1, x[1], {{x[2], 0.5, 64}}); };
  const auto plain = [](const Inputs& x) {
    const auto y = x[0] * 1;
    y.view({48, 96}).narrow(1, 64, 32).addmm_(x[1], x[2].t(), 1, 0.5);
    return y;
  };
  const auto got = all_of(own, in), wanted = all_of(plain, in);
  for (std::size_t k = 0; k < got.size(); ++k) CHECK(at::equal(got[k], wanted[k]));
}

// Inner and its gradient are rounded before what is computed of them.
TEST_CASE("GPU: adapters of one layer multiply its input together, at any byte, and later gradients reach each",
          "[products]") {
  for (const std::int64_t rank : {16, 3}) {
    INFO(rank);
    const auto joined = [](const Inputs& x) {
      const auto inner = lora::inner_of(x[0], {x[2], x[4], x[6]});
      return lora::add_low_rank_(capstan::ops::linear(x[0], x[1], {}), inner,
                                 {{x[3], 0.5, 0}, {x[5], 1.5, 64}, {x[7], 0.5, 104}});
    };
    const Inputs in{numbers({2, 24, 64}, 0.1), numbers({128, 64}, 0.2),  numbers({rank, 64}, 0.3),
                    numbers({64, rank}, 0.4),  numbers({rank, 64}, 0.5), numbers({32, rank}, 0.6),
                    numbers({rank, 64}, 0.7),  numbers({24, rank}, 0.8)};
    check_types(joined, in, 4);
    const auto backward = [&](bool later) {
      Inputs leaves;
      for (const auto& input : in) leaves.push_back(on_gpu(input.to(at::kBFloat16)).set_requires_grad(true));
      capstan::ops::WeightGradients left;
      {
        const capstan::ops::LeaveWeightGradients leave([&] { return later ? &left : nullptr; });
        for (int i = 0; i < 2; ++i) {
          const auto out = joined(leaves);
          torch::autograd::backward({out}, {at::ones_like(out)});
        }
      }
      CHECK(leaves[2].grad().defined() == !later);
      left.compute();
      return leaves;
    };
    const auto at_once = backward(false), later = backward(true);
    for (std::size_t k = 0; k < in.size(); ++k) CHECK(at::equal(later[k].grad(), at_once[k].grad()));
  }
}

TEST_CASE("GPU: float32 times a factor, rounded once to 16 bits, is ATen's bit for bit") {
  const auto factor = at::full({}, 0.37F, at::TensorOptions(at::kCUDA));
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    for (const std::int64_t size : {1, 7, 8, 4099, 3000000}) {
      const auto x = on_gpu(numbers({size + 1}, 0.1).to(at::kFloat));
      for (const auto& part : {x.narrow(0, 0, size), x.narrow(0, 1, size)})
        CHECK(at::equal(scaled(part, factor, type), (part * factor).to(type)));
    }
  }
}

TEST_CASE("GPU: AdamW over lists is ATen's bit for bit, and so are the copies that it writes") {
  const at::ScalarType copy_types[] = {at::kBFloat16, at::kHalf};
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const auto copy_type = copy_types[GENERATE(0, 1)];
  const bool copies = type == at::kFloat;
  const auto gradient_type = copies && GENERATE(false, true) ? copy_type : type;
  capstan::adamw::Lists own, theirs;
  std::vector<at::Tensor> expected;
  const auto device = at::TensorOptions(at::kCUDA);
  for (std::int64_t i = 0; i < 70; ++i) {
    const auto size = 1 + i * 7919 % 50021;
    const auto x = on_gpu(numbers({size}, 0.1 * static_cast<double>(i)).to(type));
    const auto g = on_gpu(numbers({size}, 0.2 * static_cast<double>(i)).mul(1e-3).to(gradient_type));
    for (auto* lists : {&own, &theirs}) {
      lists->masters.push_back(x.clone());
      lists->averages.push_back(at::zeros_like(x));
      lists->squares.push_back(at::zeros_like(x));
    }
    own.gradients.push_back(g);
    if (copies) own.copies.push_back(at::empty({size}, x.options().dtype(copy_type)));
  }
  const capstan::adamw::OnDevice numbers_on_device{at::zeros({}, device), at::full({}, 1.7, device),
                                                   at::zeros({}, device)};
  capstan::adamw::Step step{3e-4, 0.9, 0.95, 0.1, 1e-8};
  for (int s = 0; s < 4; ++s) {
    step.decay = s % 2 == 0 ? 0.1 : 0.0;
    numbers_on_device.skip.fill_(s == 2 ? 1 : 0);
    numbers_on_device.count.add_(1 - numbers_on_device.skip);
    capstan::adamw::update_lists(own, step, numbers_on_device);
    std::vector<at::Tensor> gradients;
    for (const auto& g : own.gradients) gradients.push_back(g.to(type, /*non_blocking=*/false, /*copy=*/true));
    at::_fused_adamw_(theirs.masters, gradients, theirs.averages, theirs.squares, {},
                      std::vector<at::Tensor>(70, numbers_on_device.count), step.lr, step.beta1, step.beta2, step.decay,
                      step.eps, false, false, numbers_on_device.grad_scale, numbers_on_device.skip);
    for (std::size_t i = 0; i < 70; ++i) {
      REQUIRE(at::equal(own.masters[i], theirs.masters[i]));
      REQUIRE(at::equal(own.averages[i], theirs.averages[i]));
      REQUIRE(at::equal(own.squares[i], theirs.squares[i]));
      if (copies) REQUIRE(at::equal(own.copies[i], theirs.masters[i].to(copy_type)));
    }
  }
}
