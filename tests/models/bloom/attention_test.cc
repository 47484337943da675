// Attention with linear biases in one call: the reference that GPUs are compared with, and where it is taken.
#include "models/bloom/attention.h"

#include <capstan/nn/attention.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/gradients.h"
#include "predict/door.h"
#include "support/model.h"

namespace attention_test {

using namespace capstan;
using capstan::testing::all_of;
using capstan::testing::Inputs;
using capstan::testing::jacobian_error;
using capstan::testing::waves;

namespace {

constexpr std::int64_t heads = 3, dim = 4, rows = 2, length = 5;

// The plugin's file has the operators.
void open_plugin() { (void)testing::model_host().load("model", "bloom"); }

at::Tensor slopes() { return at::tensor({0.5, 0.1, 0.03}, at::kDouble); }

at::Tensor at_once(const at::Tensor& fused) { return bloom::attention_by_operator(fused, slopes()); }

// By the definition: a bias for each query and key.
at::Tensor in_steps(const at::Tensor& fused) {
  const auto parts = fused.view({rows, length, heads, 3, dim}).unbind(3);
  const auto at = [&](std::size_t i) { return parts[i].transpose(1, 2); };
  const auto place = at::arange(length, at::kDouble);
  const auto distance = place.unsqueeze(0) - place.unsqueeze(1);
  const auto bias = (slopes().view({-1, 1, 1}) * distance).masked_fill(distance > 0, -INFINITY);
  return at::matmul(at::softmax(at::matmul(at(0), at(1).mT()) / 2.0 + bias, -1), at(2));
}

at::Tensor planned(at::ScalarType type, std::int64_t columns) {
  return at::empty({rows, length, heads * 3 * columns}, at::TensorOptions(type).device(at::kMeta));
}

bool takes(const at::Tensor& fused) { return bloom::fused_attention(fused, slopes().to(at::kFloat)).has_value(); }

}  // namespace

TEST_CASE("attention with linear biases in one call is that of its definition, and so are its gradients") {
  open_plugin();
  const auto fused = waves({rows, length, heads * 3 * dim}, 0.2);
  const auto got = all_of([](const Inputs& in) { return at_once(in[0]); }, {fused});
  const auto wanted = all_of([](const Inputs& in) { return in_steps(in[0]); }, {fused});
  // Both round some tens of sums of waves up to 10 in float64.
  for (std::size_t i = 0; i < got.size(); ++i) CHECK((got[i] - wanted[i]).abs().max().item<double>() < 1e-13);
  CHECK(jacobian_error([](const Inputs& in) { return at_once(in[0]); }, {fused}) < 1e-8);
}

TEST_CASE("attention with linear biases in one call is for 16 bits on GPUs, heads of whole 8 columns up to 128") {
  (void)predict::door();  // has the meta kernels that ATen has only in Python
  open_plugin();
  CHECK(takes(planned(at::kBFloat16, 64)));
  CHECK(takes(planned(at::kHalf, 128)));
  CHECK_FALSE(takes(planned(at::kBFloat16, 136)));
  CHECK_FALSE(takes(planned(at::kBFloat16, 60)));
  CHECK_FALSE(takes(planned(at::kFloat, 64)));
  CHECK_FALSE(takes(at::zeros({rows, length, heads * 3 * 64}, at::kBFloat16)));
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  CHECK_FALSE(takes(planned(at::kBFloat16, 64)));
  at::globalContext().setDeterministicAlgorithms(false, false);
}

TEST_CASE("BLOOM's layers are served by its own rows on GPUs, and by core's on CPUs and with dropout") {
  const auto whole = [](std::int64_t value) { return value; };
  const auto units = testing::make_model("bloom", {{"num_layers", whole(1)},
                                                   {"hidden_size", whole(128)},
                                                   {"num_heads", whole(2)},
                                                   {"vocab_size", whole(31)},
                                                   {"attention_dropout", 0.1}})
                         ->build();
  const auto& attention = *units.at(1)->all<nn::Attention>().at(0);
  const auto served_by = [&](const at::TensorOptions& options, const nn::Batch& batch) {
    const auto* row = attention.rows().row_for(attention.planned(at::empty({1}, options), batch, 16));
    return row ? row->name : "apart";
  };
  const auto meta = at::TensorOptions(at::kMeta);
  nn::Batch batch, packed, training;
  packed.documents.emplace().bounds = at::empty({3}, meta.dtype(at::kInt));
  training.training = true;
  CHECK(served_by(meta.dtype(at::kBFloat16), batch) == "cuDNN with linear biases");
  CHECK(served_by(meta.dtype(at::kFloat), batch) == "linear biases as columns");
  CHECK(served_by(meta.dtype(at::kBFloat16), packed) == "linear biases as columns");
  CHECK(served_by(meta.dtype(at::kFloat), packed) == "apart");
  CHECK(served_by(meta.dtype(at::kBFloat16), training) == "plain");
  CHECK(served_by(at::kFloat, batch) == "plain");
}

TEST_CASE("a dry run knows what attention with linear biases in one call returns") {
  (void)predict::door();  // has the meta kernels that ATen has only in Python
  open_plugin();
  const auto fused = planned(at::kBFloat16, 64).set_requires_grad(true);
  const auto y = bloom::fused_attention(fused, slopes().to(at::kFloat)).value();
  CHECK(y.sizes() == at::IntArrayRef{rows, heads, length, 64});
  CHECK(y.transpose(1, 2).is_contiguous());
  const auto gradient = torch::autograd::grad({y}, {fused}, {at::empty_like(y)}).at(0);
  CHECK(gradient.sizes() == fused.sizes());
}

}  // namespace attention_test
