#include <ATen/ATen.h>
#include <capstan/nn/head.h>
#include <capstan_catch.h>

#include "nn/weights.h"

using namespace capstan;
using capstan::testing::bound;
using capstan::testing::difference;
using capstan::testing::numbers;

namespace {

struct Example {
  at::Tensor x = numbers({2, 4, 5}, 0.1);
  at::Tensor matrix = numbers({7, 5}, 0.4);
  nn::Layer root{"root"};
  nn::VocabularyHead head{root, "lm_head", bound("lm_head.weight", matrix)};
  nn::Batch with_labels() const {
    nn::Batch batch;
    batch.labels = at::tensor({1, -100, 6, 0, 3, 2, -100, -100}, at::kLong).view({2, 4});
    return batch;
  }
  nn::Batch for_last() const {
    nn::Batch batch;
    batch.last = at::tensor({2, 0}, at::kLong);
    return batch;
  }
};

}  // namespace

TEST_CASE("the head's loss is the sum over targets, its logits are those of each row's last position") {
  Example e;
  const auto logits = at::linear(e.x, e.matrix);
  const auto batch = e.with_labels();
  const auto expected = at::cross_entropy_loss(logits.flatten(0, 1), batch.labels.flatten(), {}, at::Reduction::Sum);
  CHECK(e.head.forward(e.x, batch).item<double>() == Approx(expected.item<double>()).epsilon(1e-14));
  const auto last = e.head.forward(e.x, e.for_last());
  CHECK(difference(last, at::stack({logits[0][2], logits[1][0]})) < 1e-14);
}

TEST_CASE("the head's ports") {
  Example e;
  e.head.before.fill("tp", [](const at::Tensor& x) { return x * 2; });
  e.head.loss.fill("tp", [](const at::Tensor& x, const at::Tensor& matrix, const at::Tensor& labels) {
    return x.sum() + matrix.sum() + labels.sum();
  });
  e.head.after_logits.fill("tp", [](const at::Tensor& logits) { return at::cat({logits, logits}, -1); });
  const auto batch = e.with_labels();
  const auto expected = 2 * e.x.sum() + e.matrix.sum() + batch.labels.sum();
  CHECK(e.head.forward(e.x, batch).item<double>() == Approx(expected.item<double>()));
  const auto logits = e.head.forward(e.x, e.for_last());
  CHECK(logits.sizes() == at::IntArrayRef({2, 14}));
  CHECK(difference(logits[0].narrow(0, 7, 7), 2 * e.matrix.mv(e.x[0][2])) < 1e-14);
}
