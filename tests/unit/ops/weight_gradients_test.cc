// Gradients of weights that are left to later are those that backward computes, bit for bit.
#include "ops/weight_gradients.h"

#include <ATen/ATen.h>
#include <capstan/ops/grouped.h>
#include <capstan/ops/linear.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <vector>

#include "ops/activated_linear.h"
#include "ops/gradients.h"

namespace weight_gradients_test {

using namespace capstan;
using capstan::testing::waves;

namespace {

// A product of x and a weight [n, …].
struct Product {
  const char* name;
  at::Tensor weight;
  std::function<at::Tensor(const at::Tensor& x, const at::Tensor& weight)> compute;
};

std::vector<Product> products() {
  const auto ends = at::tensor({4, 6}, at::kInt);
  return {{"linear", waves({5, 8}, 0.5), [](const auto& x, const auto& w) { return ops::linear(x, w, {}); }},
          {"a view of a weight", waves({5, 2, 4}, 0.5),
           [](const auto& x, const auto& w) {
             return ops::linear(x, w.view({5, 8}), {});
           }},
          {"of an activation", waves({5, 8}, 0.5),
           [](const auto& x, const auto& w) { return ops::linear(at::tanh(x), w, {}); }},
          {"of SwiGLU", waves({5, 4}, 0.5),
           [](const auto& x, const auto& w) { return ops::activated_linear(x, ops::Activating::swiglu, w, {}); }},
          {"of GELU", waves({5, 8}, 0.5),
           [](const auto& x, const auto& w) { return ops::activated_linear(x, ops::Activating::gelu, w, {}); }},
          {"of groups of rows", waves({2, 5, 8}, 0.5),
           [ends](const auto& x, const auto& w) { return ops::grouped_linear(x, w, ends); }}};
}

struct Leaves {
  at::Tensor x, weight;
};

Leaves leaves_of(const Product& product) {
  return {waves({6, 8}, 0.1).set_requires_grad(true), product.weight.clone().set_requires_grad(true)};
}

void backward(const Product& product, const Leaves& leaves, int times = 1) {
  for (int i = 1; i <= times; ++i) {
    const auto loss = product.compute(leaves.x * i, leaves.weight).pow(2).sum();
    torch::autograd::backward({loss}, {at::ones({}, loss.options())});
  }
}

}  // namespace

TEST_CASE("a product's gradient of its weight comes when it is asked for, and all others as before") {
  for (const auto& product : products()) {
    INFO(product.name);
    const auto at_once = leaves_of(product), later = leaves_of(product);
    backward(product, at_once, 2);
    ops::WeightGradients left;
    {
      const ops::LeaveWeightGradients leave([&] { return &left; });
      backward(product, later, 2);
    }
    CHECK_FALSE(later.weight.grad().defined());
    CHECK(at::equal(later.x.grad(), at_once.x.grad()));
    left.compute();
    CHECK(at::equal(later.weight.grad(), at_once.weight.grad()));
    left.compute();  // there is nothing left
    CHECK(at::equal(later.weight.grad(), at_once.weight.grad()));
  }
}

TEST_CASE("what is computed later holds its input, and nothing afterwards") {
  const auto product = products().front();
  const auto leaves = leaves_of(product);
  auto in = (leaves.x * 2).detach();
  ops::WeightGradients left;
  {
    const ops::LeaveWeightGradients leave([&] { return &left; });
    const auto loss = product.compute(in, leaves.weight).sum();
    torch::autograd::backward({loss}, {at::ones({}, loss.options())});
  }
  CHECK(in.storage().use_count() == 2);
  left.compute();
  CHECK(in.storage().use_count() == 1);
}

TEST_CASE("inside a place that leaves nothing, gradients come at once") {
  const auto product = products().front();
  const auto leaves = leaves_of(product);
  ops::WeightGradients left;
  const ops::LeaveWeightGradients leave([&] { return &left; });
  {
    const ops::LeaveWeightGradients nowhere([] { return nullptr; });
    backward(product, leaves);
  }
  CHECK(leaves.weight.grad().defined());
  const auto before = leaves.weight.grad().clone();
  backward(product, leaves);
  CHECK(at::equal(leaves.weight.grad(), before));
}

}  // namespace weight_gradients_test
