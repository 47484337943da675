#include <ATen/ATen.h>
#include <capstan/ops/grouped.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/jacobian.h"

namespace grouped_test {

using namespace capstan::ops;
using capstan::testing::jacobian_error;

namespace {

at::Tensor numbers(const std::vector<std::int64_t>& shape, double phase = 0) {
  return (at::arange(1, c10::multiply_integers(shape) + 1, at::kDouble) * 0.7 + phase).sin().view(shape);
}

at::Tensor ends_of(const std::vector<int>& ends) { return at::tensor(ends, at::kInt); }

}  // namespace

TEST_CASE("grouped_linear multiplies each row with its group's matrix") {
  const at::Tensor x = numbers({7, 3}), weight = numbers({4, 5, 3}, 1);
  // Groups of 2, 0, 4 and 1 rows; none at the ends; all in one.
  const std::vector<std::vector<int>> cases{{2, 2, 6, 7}, {0, 3, 7, 7}, {7, 7, 7, 7}, {0, 0, 0, 7}};
  for (const auto& ends : cases) {
    const at::Tensor out = grouped_linear(x, weight, ends_of(ends));
    REQUIRE(out.sizes() == at::IntArrayRef({7, 5}));
    int group = 0;
    for (int row = 0; row < 7; ++row) {
      while (row >= ends[static_cast<std::size_t>(group)]) ++group;
      CHECK((out[row] - weight[group].mv(x[row])).abs().max().item<double>() < 1e-15);
    }
  }
}

TEST_CASE("grouped_linear's backward is the Jacobian, zero for a group without rows") {
  const at::Tensor ends = ends_of({2, 2, 6, 7});
  const auto function = [&](const std::vector<at::Tensor>& in) { return grouped_linear(in[0], in[1], ends); };
  CHECK(jacobian_error(function, {numbers({7, 3}), numbers({4, 5, 3}, 1)}) < 1e-8);
  const at::Tensor weight = numbers({4, 5, 3}, 1).set_requires_grad(true);
  const at::Tensor gradient = torch::autograd::grad({grouped_linear(numbers({7, 3}), weight, ends).sum()}, {weight})[0];
  CHECK(gradient[1].abs().max().item<double>() == 0);
  CHECK(gradient[2].abs().max().item<double>() > 0);
}

TEST_CASE("no rows at all") {
  const at::Tensor weight = numbers({2, 5, 3}).set_requires_grad(true);
  const at::Tensor out = grouped_linear(at::empty({0, 3}, at::kDouble), weight, ends_of({0, 0}));
  CHECK(out.sizes() == at::IntArrayRef({0, 5}));
  CHECK(torch::autograd::grad({out.sum()}, {weight})[0].abs().max().item<double>() == 0);
}

TEST_CASE("grouped_linear keeps its rows for a weight's gradient only") {
  for (const bool trained : {false, true}) {
    const at::Tensor leaf = numbers({7, 3}).set_requires_grad(true);
    const at::Tensor weight = numbers({4, 5, 3}, 1).set_requires_grad(trained);
    at::Tensor x = leaf + 1;
    const c10::weak_intrusive_ptr<c10::StorageImpl> memory(x.storage().getWeakStorageImpl());
    const at::Tensor out = grouped_linear(x, weight, ends_of({2, 2, 6, 7}));
    x.reset();
    CHECK(memory.expired() == !trained);
    CHECK(torch::autograd::grad({out.sum()}, {leaf})[0].sizes() == leaf.sizes());
  }
}

TEST_CASE("permute_rows takes rows in another order, with copies, and back") {
  const at::Tensor x = numbers({4, 3});
  const at::Tensor index = at::tensor({5, 0, 7, 2, 1, 6, 3, 4}, at::kLong), inverse = index.argsort();
  const at::Tensor out = permute_rows(x, index, inverse, 2);
  CHECK(at::equal(out, x.index_select(0, at::tensor({2, 0, 3, 1, 0, 3, 1, 2}, at::kLong))));
  CHECK(at::equal(permute_rows(out, inverse, index), x.repeat_interleave(2, 0)));
  const auto copies = [&](const std::vector<at::Tensor>& in) { return permute_rows(in[0], index, inverse, 2); };
  CHECK(jacobian_error(copies, {x}) < 1e-8);
  const auto plain = [&](const std::vector<at::Tensor>& in) { return permute_rows(in[0], index, inverse); };
  CHECK(jacobian_error(plain, {numbers({8, 3})}) < 1e-8);
}

TEST_CASE("grouped operations on the meta device have the shapes") {
  const auto meta = at::TensorOptions(at::kBFloat16).device(at::kMeta);
  const at::Tensor x = at::empty({6, 8}, meta).set_requires_grad(true);
  const at::Tensor weight = at::empty({3, 16, 8}, meta).set_requires_grad(true);
  const at::Tensor out = grouped_linear(x, weight, at::empty({3}, meta.dtype(at::kInt)));
  CHECK(out.sizes() == at::IntArrayRef({6, 16}));
  const auto gradients = torch::autograd::grad({out}, {x, weight}, {at::empty_like(out)});
  CHECK(gradients[0].sizes() == x.sizes());
  CHECK(gradients[1].sizes() == weight.sizes());
}

}  // namespace grouped_test
