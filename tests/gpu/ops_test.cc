// The CUDA kernels against their CPU references.
#include <ATen/ATen.h>
#include <capstan/base/philox.h>
#include <capstan/ops/cross_entropy.h>
#include <capstan/ops/label_log_probabilities.h>
#include <capstan/ops/random.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>
#include "ops/norm.h"

#include <cmath>
#include <limits>

#include "ops/add_lists.h"
#include "ops/checksum.h"
#include "ops/softmax_rows.h"
#include "ops/table_rows.h"

namespace ops_test {

using namespace capstan::ops;

namespace {

using Shape = std::vector<std::int64_t>;
const at::ScalarType float_types[] = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf};

at::Tensor on_gpu(const at::Tensor& x) { return x.to(at::kCUDA); }

at::Tensor normals(at::Device device, at::ScalarType type, const Shape& box, const Shape& shape, const Shape& offset) {
  const at::Tensor out = at::empty(box, at::TensorOptions(type).device(device));
  fill_normal(out, 0.5, 2, 7, "w", shape, offset);
  return out.cpu();
}

/// A box, the shape it is cut from, and where: aligned to Philox blocks or not, merged to one run or not.
struct Cut {
  Shape box, shape, offset;
};
const Cut cuts[] = {{{6, 8, 12}, {6, 8, 12}, {0, 0, 0}},       {{3, 8, 12}, {6, 8, 12}, {3, 0, 0}},
                    {{6, 4, 12}, {6, 8, 12}, {0, 4, 0}},       {{6, 8, 4}, {6, 8, 12}, {0, 0, 8}},
                    {{6, 8, 5}, {6, 8, 12}, {0, 0, 3}},        {{1, 3, 7}, {6, 8, 12}, {5, 2, 1}},
                    {{5, 3, 7}, {5, 3, 7}, {0, 0, 0}},         {{1, 1, 200003}, {1, 1, 200003}, {0, 0, 0}},
                    {{2, 30, 4097}, {2, 60, 4097}, {0, 30, 0}}};

DropoutKey key_for(at::Device device, std::int64_t batch) {
  DropoutKey key;
  key.seed = 5;
  key.site = capstan::stable_hash("site");
  key.step = 9;
  key.sample_ids = at::arange(batch, at::kLong).mul(1000003).add(std::int64_t{1} << 33).to(device);
  return key;
}

at::Tensor numbers(std::int64_t n, at::ScalarType type) {
  return at::arange(1, n + 1, at::kDouble).mul(0.37).sin().to(type);
}

}  // namespace

// The kept words decide, so equal masks at p = 1/2, 1/4, … mean equal Philox integers, bit by bit from the top.
TEST_CASE("GPU: dropout equals CPU's bit for bit, in every dtype, shape and cut") {
  for (const at::ScalarType type : float_types) {
    for (const Cut& cut : cuts) {
      for (const double p : {0.1, 0.5, 0.25}) {
        Shape shape = cut.box;
        shape.insert(shape.begin(), 3);
        const at::Tensor x = numbers(c10::multiply_integers(shape), type).add(2).view(shape);
        DropoutKey key = key_for(at::kCPU, 3);
        key.row_shape = cut.shape;
        key.row_offset = cut.offset;
        const at::Tensor expected = dropout(x, p, key);
        key.sample_ids = on_gpu(key.sample_ids);
        CHECK(at::equal(dropout(on_gpu(x), p, key).cpu(), expected));
        key.device_step = at::full({1}, 9, key.sample_ids.options());
        key.step = 0;
        CHECK(at::equal(dropout(on_gpu(x), p, key).cpu(), expected));
      }
    }
  }
}

TEST_CASE("GPU: Philox's integers, read through normals' documented block, equal CPU's") {
  // An angle and a radius of 53 bits each, from all four words: two doubles that agree to rounding leave no room for
  // another integer in the 2^20 blocks compared (the smallest step of u or v moves a normal by more than 1e-16 r).
  const Shape shape{std::int64_t{1} << 21};
  const at::Tensor cpu = normals(at::kCPU, at::kDouble, shape, shape, {0});
  const at::Tensor gpu = normals(at::kCUDA, at::kDouble, shape, shape, {0});
  // CUDA's log, sin and cos are good to 1, 2 and 2 ulp, glibc's to 1; the sum with the mean adds half an ulp. The
  // numbers, 0.5 + 2 n, are at most 20, with an ulp of 3.6e-15.
  CHECK((cpu - gpu).abs().max().item<double>() < 4 * 3.6e-15);
}

TEST_CASE("GPU: normals equal CPU's in any box and dtype") {
  for (const Cut& cut : cuts) {
    const at::Tensor exact = normals(at::kCPU, at::kDouble, cut.box, cut.shape, cut.offset);
    CHECK((normals(at::kCUDA, at::kDouble, cut.box, cut.shape, cut.offset) - exact).abs().max().item<double>() <
          1.5e-14);
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const at::Tensor cpu = normals(at::kCPU, type, cut.box, cut.shape, cut.offset);
      const at::Tensor gpu = normals(at::kCUDA, type, cut.box, cut.shape, cut.offset);
      // A double a few ulp off rounds to another float32 once in some 10^8, so hardly ever in these 10^6.
      CHECK((cpu != gpu).sum().item<std::int64_t>() <= 1);
    }
  }
}

TEST_CASE("GPU: a box of normals equals that slice of the whole bit for bit") {
  for (const Cut& cut : cuts) {
    at::Tensor expected = normals(at::kCUDA, at::kDouble, cut.shape, cut.shape, {0, 0, 0});
    for (std::int64_t dim = 0; dim < 3; ++dim) {
      const auto at_dim = static_cast<std::size_t>(dim);
      expected = expected.narrow(dim, cut.offset[at_dim], cut.box[at_dim]);
    }
    CHECK(at::equal(normals(at::kCUDA, at::kDouble, cut.box, cut.shape, cut.offset), expected));
  }
}

TEST_CASE("GPU: dropout's backward draws the mask of its forward, also on a strided input") {
  const at::Tensor x =
      on_gpu(numbers(4 * 33 * 64, at::kFloat)).view({4, 64, 33}).transpose(1, 2).set_requires_grad(true);
  const at::Tensor y = dropout(x, 0.3, key_for(at::kCUDA, 4));
  const at::Tensor gradient = torch::autograd::grad({y}, {x}, {at::ones_like(y)})[0];
  const at::Tensor kept = dropout(at::ones_like(x, at::MemoryFormat::Contiguous), 0.3, key_for(at::kCUDA, 4));
  CHECK(at::equal(gradient.contiguous(), kept));
  CHECK(at::equal(y != 0, kept != 0));
}

TEST_CASE("GPU: squared norms equal CPU's bit for bit, in packs and one by one") {
  for (const at::ScalarType type : float_types) {
    for (const std::int64_t n : {0, 1, 255, 257, 4096, 4097, 8192, 1000003, 3000000}) {
      const at::Tensor whole = numbers(n, type), there = on_gpu(whole);
      for (const int first : {0, 1}) {
        const at::Tensor x = whole.slice(0, first);
        at::Tensor cpu = at::empty({1}, at::kDouble), gpu = on_gpu(cpu);
        squared_norms(cpu, {x});
        squared_norms(gpu, {there.slice(0, first)});
        CHECK(at::equal(gpu.cpu(), cpu));
        CHECK(gpu.item<double>() == Approx(x.to(at::kDouble).square().sum().item<double>()).epsilon(1e-13));
      }
    }
  }
}

TEST_CASE("GPU: many tensors at once, more than a launch takes") {
  std::vector<at::Tensor> xs, copies;
  for (std::int64_t i = 0; i < 150; ++i) {
    xs.push_back(numbers(i * 137 % 9001, float_types[i % 4]));
    copies.push_back(on_gpu(xs.back()));
  }
  at::Tensor cpu = at::empty({150}, at::kDouble),
             gpu = at::full({150}, -1.0, at::TensorOptions(at::kDouble).device(at::kCUDA));
  squared_norms(cpu, xs);
  squared_norms(gpu, copies);
  CHECK(at::equal(gpu.cpu(), cpu));
  copies[77].fill_(INFINITY);
  squared_norms(gpu, copies);
  CHECK(gpu.isinf().sum().item<int>() == 1);
}

// Bounds as on CPU (tests/unit/ops/cross_entropy_test.cc): float32 sums over 96 terms; 16-bit gradients are rounded to
// 8 and 11 bits, the logits not at all. hidden is a multiple of 8 so that tensor cores are used.
TEST_CASE("GPU: chunked cross entropy equals the float64 reference", "[products]") {
  const std::int64_t rows = 70, size = 96, vocabulary = 1000;
  const at::Tensor hidden = numbers(rows * size, at::kDouble).view({rows, size});
  const at::Tensor weight = numbers(vocabulary * size, at::kDouble).mul(1.7).cos().mul(0.5).view({vocabulary, size});
  const at::Tensor labels = at::arange(rows, at::kLong).mul(37).remainder(vocabulary);
  labels.slice(0, 5, 20).fill_(ignored_label);
  const double bounds[] = {1e-13, 1e-5, 1.0 / 128, 1.0 / 1024};
  for (int i = 0; i < 4; ++i) {
    const at::Tensor h = hidden.to(float_types[i]), w = weight.to(float_types[i]);
    const at::Tensor h64 = h.to(at::kDouble).set_requires_grad(true), w64 = w.to(at::kDouble).set_requires_grad(true);
    const at::Tensor expected = at::cross_entropy_loss(h64.mm(w64.t()), labels, {}, at::Reduction::Sum);
    const auto wanted = torch::autograd::grad({expected * 0.3}, {h64, w64});
    const at::Tensor hg = on_gpu(h).set_requires_grad(true), wg = on_gpu(w).set_requires_grad(true);
    const at::Tensor loss = chunked_linear_cross_entropy(hg, wg, on_gpu(labels), 32);
    const auto got = torch::autograd::grad({loss * 0.3}, {hg, wg});
    CHECK(loss.item<double>() == Approx(expected.item<double>()).epsilon(i == 0 ? 1e-14 : 1e-5));
    for (std::size_t k = 0; k < 2; ++k) {
      CHECK(got[k].scalar_type() == float_types[i]);
      const at::Tensor difference = (got[k].cpu().to(at::kDouble) - wanted[k]).abs().max() / wanted[k].abs().max();
      CHECK(difference.item<double>() < bounds[i]);
    }
  }
}

// The weight's gradient is a product of states that are rounded once more, as are the states' own gradients where the
// weight is frozen.
TEST_CASE("GPU: log-probabilities of labels equal the float64 reference", "[products]") {
  const std::int64_t rows = 70, size = 96, vocabulary = 1000;
  const at::Tensor hidden = numbers(rows * size, at::kDouble).view({rows, size});
  const at::Tensor weight = numbers(vocabulary * size, at::kDouble).mul(1.7).cos().mul(0.5).view({vocabulary, size});
  const at::Tensor labels = at::arange(rows, at::kLong).mul(37).remainder(vocabulary);
  labels.slice(0, 5, 20).fill_(ignored_label);
  const at::Tensor factors = at::arange(rows, at::kDouble).mul(0.8).cos().mul(1e-3);
  const bool trains_weight = GENERATE(true, false);
  const double bounds[] = {1e-13, 1e-5, 1.0 / 64, 1.0 / 512};
  for (int i = 0; i < 4; ++i) {
    const at::Tensor h = hidden.to(float_types[i]), w = weight.to(float_types[i]);
    const at::Tensor h64 = h.to(at::kDouble).set_requires_grad(true), w64 = w.to(at::kDouble).set_requires_grad(true);
    const auto all = at::log_softmax(h64.mm(w64.t()), 1).gather(1, labels.clamp_min(0).unsqueeze(1)).squeeze(1);
    const auto expected = all.masked_fill(labels.eq(ignored_label), 0);
    const auto wanted = torch::autograd::grad({(expected * factors).sum()}, {h64, w64});
    std::vector<at::Tensor> trained{on_gpu(h).set_requires_grad(true)};
    const auto wg = on_gpu(w).set_requires_grad(trains_weight);
    if (trains_weight) trained.push_back(wg);
    const auto result = chunked_label_log_probabilities(trained[0], wg, on_gpu(labels), 32);
    CHECK((result.cpu().to(at::kDouble) - expected).abs().max().item<double>() < (i == 0 ? 1e-12 : 1e-4));
    const auto got = torch::autograd::grad({(result.to(at::kDouble) * on_gpu(factors)).sum()}, trained);
    for (std::size_t k = 0; k < got.size(); ++k) {
      CHECK(got[k].scalar_type() == float_types[i]);
      const at::Tensor difference = (got[k].cpu().to(at::kDouble) - wanted[k]).abs().max() / wanted[k].abs().max();
      CHECK(difference.item<double>() < bounds[i]);
    }
  }
}

TEST_CASE("GPU: checksums equal CPU's, of many tensors of all dtypes") {
  std::vector<at::Tensor> xs, copies;
  for (std::int64_t i = 0; i < 150; ++i) {
    xs.push_back(numbers(1 + 7919 * i % 30011, float_types[i % 4]));
    copies.push_back(on_gpu(xs.back()));
  }
  const at::Tensor cpu = at::full({150}, 3, at::kLong), gpu = on_gpu(cpu);
  checksums(cpu, xs);
  checksums(gpu, copies);
  CHECK(at::equal(gpu.cpu(), cpu));
}

TEST_CASE("GPU: lists of 16-bit numbers are added to float32 ones as one by one") {
  std::vector<at::Tensor> to, from, expected;
  const auto flat = numbers(2000000, at::kFloat).to(at::kCUDA);
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < 150; ++i) {
    const auto size = 1 + 7919 * i % 12011;
    from.push_back(numbers(size, float_types[2 + i % 2]).to(at::kCUDA));
    to.push_back(flat.narrow(0, begin, size));
    expected.push_back(to.back().add(from.back()));
    begin += size + i % 3;  // some are not aligned
  }
  add_lists_(to, from);
  for (std::size_t i = 0; i < to.size(); ++i) CHECK(at::equal(to[i], expected[i]));
}

TEST_CASE("GPU: rows are added to a table's part as one by one, in their order") {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const std::int64_t columns : {7, 64, 4096}) {
      INFO(type << ", " << columns << " columns");
      // Words that come hundreds of times, others that never come, and ids of no table.
      auto ids = at::arange(3000, at::kLong).square().remainder(257);
      ids.narrow(0, 100, 900).fill_(40);
      ids.narrow(0, 2000, 50).fill_(-1);
      const auto rows = numbers(3000 * columns, type).view({3000, columns});
      const auto cpu = numbers(200 * columns, at::kFloat).view({200, columns}), gpu = on_gpu(cpu).clone();
      add_rows_(cpu, ids, rows, 30);
      add_rows_(gpu, on_gpu(ids), on_gpu(rows), 30);
      CHECK(at::equal(gpu.cpu(), cpu));
    }
  }
}

// Float32 exponentials are good to 2 units in the last place on both sides, and the sums have up to 250,880 terms that
// are added in another order.
TEST_CASE("GPU: softmax over rows, its statistics and its gradient in place of the logits") {
  for (const std::int64_t columns : {1, 31, 4096, 50257, 250880}) {
    INFO(columns);
    const std::int64_t rows = 5;
    const auto cpu = numbers(rows * columns, at::kDouble).mul(9).view({rows, columns}).to(at::kFloat);
    const auto column =
        at::tensor({std::int64_t{0}, columns - 1, columns / 2, std::int64_t{-100}, columns}, at::kLong).view({rows, 1});
    const auto exact = cpu.to(at::kDouble).softmax(1);
    for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const auto logits = on_gpu(cpu).clone();
      auto [maximum, sum, picked] = softmax_statistics(logits, on_gpu(column));
      CHECK(at::equal(maximum.cpu(), cpu.amax(1, true)));
      const auto sums = (cpu.to(at::kDouble) - cpu.amax(1, true).to(at::kDouble)).exp().sum(1, true);
      CHECK(((sum.cpu().to(at::kDouble) - sums) / sums).abs().max().item<double>() < 1e-5);
      CHECK(picked.cpu()[0].item<float>() == cpu[0][0].item<float>());
      CHECK(picked.cpu()[1].item<float>() == cpu[1][columns - 1].item<float>());
      CHECK(picked.cpu()[3].item<float>() == 0);
      CHECK(picked.cpu()[4].item<float>() == 0);
      sum[3].fill_(std::numeric_limits<float>::infinity());
      const auto got = softmax_gradient_(logits, maximum, sum, on_gpu(column), 8, type).cpu().to(at::kDouble);
      auto wanted = exact.clone();
      for (const int row : {0, 1, 2}) wanted[row][column[row].item<std::int64_t>()] -= 1;
      wanted[3].zero_();
      const double bound = type == at::kFloat ? 1e-5 : type == at::kBFloat16 ? 1.0 / 256 : 1.0 / 2048;
      CHECK((got / 8 - wanted).abs().max().item<double>() <= bound);
      CHECK(got[3].abs().max().item<double>() == 0);
    }
  }
}

// Rows that one to eight thread blocks hold, whole packs or not, and those that take two passes.
TEST_CASE("GPU: a row's loss and its gradient in place, of what registers hold and of what they do not") {
  for (const std::int64_t columns : {4, 1000, 16384, 32000, 50257, 65532, 128256, 250880, 262144, 262148}) {
    INFO(columns);
    const std::int64_t rows = columns > 50000 ? 20 : 70;  // more than there are clusters at once
    const auto cpu = numbers(rows * columns, at::kDouble).mul(9).view({rows, columns}).to(at::kFloat);
    const auto column = at::arange(rows, at::kLong).mul(7919).remainder(columns);
    column[0].fill_(columns - 1);
    for (const std::int64_t row : {std::int64_t{3}, rows - 1}) column[row].fill_(-100);
    auto wanted = cpu.to(at::kDouble).softmax(1);
    const auto at_column = column.clamp_min(0).unsqueeze(1);
    const auto losses = -wanted.log().gather(1, at_column).squeeze(1).masked_fill(column.lt(0), 0);
    wanted.scatter_add_(1, at_column, at::full({rows, 1}, -1.0, wanted.options()));
    for (const std::int64_t row : {std::int64_t{3}, rows - 1}) wanted[row].zero_();
    for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const auto logits = on_gpu(cpu).clone(), got_losses = at::empty({rows}, logits.options());
      const auto got = softmax_loss_(logits, on_gpu(column), 8, type, got_losses).cpu().to(at::kDouble);
      CHECK((got_losses.cpu() - losses).abs().max().item<double>() < 1e-4);
      const double bound = type == at::kFloat ? 1e-5 : type == at::kBFloat16 ? 1.0 / 256 : 1.0 / 2048;
      CHECK((got / 8 - wanted).abs().max().item<double>() <= bound);
      CHECK(got[3].abs().max().item<double>() == 0);
      CHECK(got[rows - 1].abs().max().item<double>() == 0);
      CHECK(got_losses[3].item<float>() == 0);
    }
  }
}

TEST_CASE("GPU: a logit that is no number makes the row's loss and gradient none, and minus infinity is no word") {
  const auto infinity = std::numeric_limits<float>::infinity();
  for (const std::int64_t columns : {5000, 5001, 128256}) {
    const auto logits = at::zeros({4, columns}, at::TensorOptions(at::kFloat).device(at::kCUDA));
    logits[1][4999].fill_(std::nan(""));
    logits[2][7].fill_(infinity);
    logits[3].narrow(0, 2, columns - 2).fill_(-infinity);
    const auto losses = at::empty({4}, logits.options());
    const auto got = softmax_loss_(logits, at::zeros({4}, logits.options().dtype(at::kLong)), 1, at::kBFloat16, losses);
    CHECK(losses[0].item<float>() == Approx(std::log(static_cast<double>(columns))).epsilon(1e-5));
    CHECK(std::isnan(losses[1].item<float>()));
    CHECK(std::isnan(losses[2].item<float>()));
    CHECK(std::isnan(got[1][0].item<float>()));
    CHECK(losses[3].item<float>() == Approx(std::log(2.0)).epsilon(1e-5));
    CHECK(got[3].cpu().to(at::kFloat).abs().sum().item<float>() == 1);  // -1/2 at the target and 1/2 next to it
  }
}

TEST_CASE("GPU: a logit that is no number makes the row's sum none") {
  auto logits = at::zeros({3, 5000}, at::TensorOptions(at::kFloat).device(at::kCUDA));
  logits[1][4999].fill_(std::nan(""));
  logits[2][7].fill_(std::numeric_limits<float>::infinity());
  const auto sum = std::get<1>(softmax_statistics(logits, at::zeros({3, 1}, logits.options().dtype(at::kLong))));
  CHECK(sum[0].item<float>() == 5000);
  CHECK(std::isnan(sum[1].item<float>()));
  CHECK(std::isnan(sum[2].item<float>()));
}

}  // namespace ops_test
