#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/nn/model.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <optional>

#include "nn/weights.h"
#include "ops/jacobian.h"

namespace head_test {

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

// Each thing that a head gives, as the plain logits with a bias have it, with a cap or without.
TEST_CASE("a head's bias is in all that it gives, and gets its gradient") {
  using nn::HeadOutput;
  Example e;
  const auto labels = at::tensor({1, 4, 6, 0, 3, 2, 5, 1}, at::kLong);
  const auto weights = numbers({8}, 0.7);
  const std::optional<double> cap = GENERATE(std::optional<double>{}, std::optional<double>{0.8});
  const auto output = GENERATE(HeadOutput::loss_sum, HeadOutput::log_probabilities, HeadOutput::function);
  const auto learnt =
      [&](const std::function<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)>& of) {
        std::vector<at::Tensor> leaves;
        for (const auto& x : {e.x, e.matrix, numbers({7}, 0.9)}) leaves.push_back(x.clone().set_requires_grad(true));
        const auto made = of(leaves[0], leaves[1], leaves[2]);
        auto results = torch::autograd::grad({made}, leaves);
        results.push_back(made.detach());
        return results;
      };
  const auto capped = [&](const at::Tensor& product) { return cap ? (product / *cap).tanh() * *cap : product; };
  const auto expected = learnt([&](const at::Tensor& x, const at::Tensor& matrix, const at::Tensor& bias) {
    const auto logits = capped(at::linear(x, matrix, bias)).flatten(0, 1);
    const auto picked = at::log_softmax(logits, 1).gather(1, labels.unsqueeze(1)).squeeze(1);
    return output == HeadOutput::loss_sum ? -picked.sum() : (picked * weights).sum();
  });
  const auto got = learnt([&](const at::Tensor& x, const at::Tensor& matrix, const at::Tensor& bias) {
    const nn::VocabularyHead head(e.root, "head", bound("head.weight", matrix), cap, bound("head.bias", bias));
    nn::Batch batch;
    batch.labels = labels.view({2, 4});
    batch.pass.output = output;
    batch.pass.function = [&](const nn::HeadInput& in) {
      const auto logits = capped(in.states.mm(in.matrix.t()));
      return (at::log_softmax(logits, 1).gather(1, in.labels.unsqueeze(1)).squeeze(1) * weights).sum();
    };
    auto made = head.forward(x, batch);
    if (output == HeadOutput::log_probabilities) return (made * weights).sum();
    nn::Batch last = e.for_last();
    last.pass.output = HeadOutput::last_logits;
    const auto logits = capped(at::linear(x, matrix, bias));
    CHECK(difference(head.forward(x, last), at::stack({logits[0][2], logits[1][0]})) < 1e-14);
    return made;
  });
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(difference(got[i], expected[i]) < 1e-13);
}

TEST_CASE("logits of only some rows give the loss and the gradients of all, wherever the labels are") {
  const auto labels = GENERATE(std::vector<std::int64_t>{1, -100, 6, 0, 3, 2, -100, -100},
                               std::vector<std::int64_t>{-100, -100, -100, -100, -100, 4, -100, -100},
                               std::vector<std::int64_t>(8, -100), std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 0, 1});
  Example e;
  nn::Batch batch;
  batch.labels = at::tensor(labels, at::kLong).view({2, 4});
  auto some = batch;
  // Some that have no label are among them.
  some.loss_rows = batch.labels.flatten().ne(-100).logical_or(at::arange(8).lt(2)).nonzero().squeeze(1);
  const auto learnt = [&](const nn::Batch& of) {
    const auto x = e.x.detach().clone().set_requires_grad(true);
    const auto matrix = e.matrix.detach().clone().set_requires_grad(true);
    const nn::VocabularyHead head(e.root, "head", bound("head.weight", matrix));
    const auto loss = head.forward(x, of);
    auto results = torch::autograd::grad({loss * 0.3}, {x, matrix});
    results.push_back(loss.detach());
    return results;
  };
  const auto got = learnt(some), expected = learnt(batch);
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK((got[i] - expected[i]).abs().max().item<double>() < 1e-14);
  const auto loss = [&](const std::vector<at::Tensor>& in) {
    const nn::VocabularyHead head(e.root, "head", bound("head.weight", in[1]));
    return head.forward(in[0], some);
  };
  CHECK(capstan::testing::jacobian_error(loss, {e.x, e.matrix}) < 1e-8);
}

TEST_CASE("a layer in the loss's place sees the rows whose logits are to be computed") {
  Example e;
  auto batch = e.with_labels();
  batch.loss_rows = at::tensor({0, 2, 3, 4, 5}, at::kLong);
  e.head.loss.fill("tp", [&](const at::Tensor& x, const at::Tensor&, const at::Tensor& labels) {
    CHECK(at::equal(x, e.x.flatten(0, 1).index_select(0, batch.loss_rows)));
    CHECK(at::equal(labels, at::tensor({1, 6, 0, 3, 2}, at::kLong)));
    return x.sum();
  });
  (void)e.head.forward(e.x, batch);
}

TEST_CASE("the head gives log-probabilities of the labels of the rows that are asked for") {
  Example e;
  auto batch = e.with_labels();
  batch.pass.output = nn::HeadOutput::log_probabilities;
  const auto all = at::log_softmax(at::linear(e.x, e.matrix).flatten(0, 1), 1);
  const auto labels = batch.labels.flatten();
  const auto expected = all.gather(1, labels.clamp_min(0).unsqueeze(1)).squeeze(1).masked_fill(labels.eq(-100), 0);
  CHECK(difference(e.head.forward(e.x, batch), expected) < 1e-14);
  batch.loss_rows = at::tensor({0, 1, 2, 3, 4, 5}, at::kLong);
  CHECK(difference(e.head.forward(e.x, batch), expected.narrow(0, 0, 6)) < 1e-14);
  const auto of_states = [&](const std::vector<at::Tensor>& in) { return e.head.forward(in[0], batch); };
  CHECK(capstan::testing::jacobian_error(of_states, {e.x}) < 1e-8);
}

TEST_CASE("the head gives states of the rows that are asked for, and what a pass's function makes of them") {
  Example e;
  auto batch = e.with_labels();
  batch.loss_rows = at::tensor({0, 2, 3, 4, 5}, at::kLong);
  const auto rows = e.x.flatten(0, 1).index_select(0, batch.loss_rows);
  const auto labels = batch.labels.flatten().index_select(0, batch.loss_rows);
  batch.pass.output = nn::HeadOutput::states;
  CHECK(at::equal(e.head.forward(e.x, batch), rows));
  batch.pass.output = nn::HeadOutput::function;
  batch.pass.function = [&](const nn::HeadInput& input) {
    CHECK(at::equal(input.labels, labels));
    CHECK(at::equal(input.batch.loss_rows, batch.loss_rows));
    CHECK(input.split.chunk_rows > 1);
    CHECK_FALSE(input.split.part);
    return at::stack({input.loss_sum(), at::linear(input.states, input.matrix).square().sum()});
  };
  const auto both = e.head.forward(e.x, batch);
  const auto logits = at::linear(rows, e.matrix);
  CHECK(both[0].item<double>() ==
        Approx(at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum).item<double>()));
  CHECK(both[1].item<double>() == Approx(logits.square().sum().item<double>()).epsilon(1e-13));
  const auto of_states = [&](const std::vector<at::Tensor>& in) { return e.head.forward(in[0], batch).sum(); };
  CHECK(capstan::testing::jacobian_error(of_states, {e.x}) < 1e-8);
}

TEST_CASE("the head gives logits to a batch that has labels if it is asked to") {
  Example e;
  auto batch = e.with_labels();
  batch.last = e.for_last().last;
  batch.pass.output = nn::HeadOutput::last_logits;
  CHECK(at::equal(e.head.forward(e.x, batch), e.head.forward(e.x, e.for_last())));
}

TEST_CASE("a strategy that fills only one of the ports for labels is named") {
  Example e;
  e.head.loss.fill("mine", [](const at::Tensor& x, const at::Tensor&, const at::Tensor&) { return x.sum(); });
  auto batch = e.with_labels();
  batch.pass.output = nn::HeadOutput::log_probabilities;
  REQUIRE_THROWS_AS(e.head.forward(e.x, batch), Error);
  try {
    (void)e.head.forward(e.x, batch);
  } catch (const Error& error) {
    const auto& fault = error.diagnostics().front();
    CHECK(fault.what.find("strategy mine fills port loss of layer root/lm_head") != std::string::npos);
    CHECK_FALSE(fault.fix.empty());
  }
  batch.pass.output = nn::HeadOutput::function;
  batch.pass.function = [](const nn::HeadInput& input) { return input.states; };
  CHECK_THROWS_WITH(e.head.forward(e.x, batch), Contains("fills port loss") && Contains("but not split"));
}

TEST_CASE("the head's ports") {
  Example e;
  e.head.before.fill("tp", [](const at::Tensor& x) { return x * 2; });
  e.head.loss.fill("tp", [](const at::Tensor& x, const at::Tensor& matrix, const at::Tensor& labels) {
    return x.sum() + matrix.sum() + labels.sum();
  });
  e.head.log_probabilities.fill("tp",
                                [](const at::Tensor& x, const at::Tensor&, const at::Tensor&) { return x.sum(-1); });
  e.head.split.fill("tp", [] { return nn::HeadSplit{3, ops::VocabularyPart{nullptr, 7, "mine"}}; });
  e.head.after_logits.fill("tp", [](const at::Tensor& logits) { return at::cat({logits, logits}, -1); });
  const auto batch = e.with_labels();
  const auto expected = 2 * e.x.sum() + e.matrix.sum() + batch.labels.sum();
  CHECK(e.head.forward(e.x, batch).item<double>() == Approx(expected.item<double>()));
  auto asks = batch;
  asks.pass.output = nn::HeadOutput::log_probabilities;
  CHECK(at::equal(e.head.forward(e.x, asks), 2 * e.x.flatten(0, 1).sum(-1)));
  asks.pass.output = nn::HeadOutput::function;
  asks.pass.function = [&](const nn::HeadInput& input) {
    CHECK(input.split.chunk_rows == 3);
    CHECK(input.split.part.value().begin == 7);
    return input.loss_sum();
  };
  CHECK(e.head.forward(e.x, asks).item<double>() == Approx(expected.item<double>()));
  const auto logits = e.head.forward(e.x, e.for_last());
  CHECK(logits.sizes() == at::IntArrayRef({2, 14}));
  CHECK(difference(logits[0].narrow(0, 7, 7), 2 * e.matrix.mv(e.x[0][2])) < 1e-14);
}

TEST_CASE("a head of values gives them for each of the rows with labels, and nothing else") {
  const Example e;
  nn::Layer root{"root"};
  const auto matrix = numbers({2, 5}, 0.6);
  const nn::ValueHead head(root, "score", bound("score.weight", matrix));
  auto batch = e.with_labels();
  batch.pass.output = nn::HeadOutput::values;
  const auto all = at::linear(e.x, matrix).flatten(0, 1);
  CHECK(difference(head.forward(e.x, batch), all) < 1e-14);
  batch.loss_rows = at::tensor({0, 2, 5}, at::kLong);
  CHECK(difference(head.forward(e.x, batch), all.index_select(0, batch.loss_rows)) < 1e-14);
  batch.pass.output = nn::HeadOutput::loss_sum;
  CHECK_THROWS_WITH(head.forward(e.x, batch), Contains("root/score gives values, and something else is asked"));
  CHECK_THROWS_WITH(head.forward(e.x, e.for_last()), Contains("gives values"));
  CHECK(head.weight()->records().front().usage == layout::Usage::head);
  CHECK(nn::ModelFacts{.outputs = nn::ValueHead::outputs()}.gives(nn::HeadOutput::values));
  CHECK_FALSE(nn::ModelFacts{}.gives(nn::HeadOutput::values));
}

}  // namespace head_test
