// Norms of q and k with their positions in one pass, against the norm and rotary that it stands for.
#include "models/qwen3/heads.h"

#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/gradients.h"
#include "support/model.h"

namespace heads_test {

using namespace capstan;
using capstan::testing::all_of;
using capstan::testing::Inputs;
using capstan::testing::jacobian_error;
using capstan::testing::waves;

namespace {

constexpr double epsilon = 1e-6;

// All heads' features, of 5 queries, 2 keys and 2 values.
struct Case {
  nn::Attention::Heads heads{5, 2, 6};
  std::vector<double> frequencies{1.0, 0.3, 0.07};
  at::Tensor positions = at::tensor({0, 1, 2, 3, 7, 0, 1, 130}, at::kLong).view({2, 4});
  at::Tensor fused = waves({2, 4, 9, 6}, 0.2);
  at::Tensor query_norm = waves({6}, 0.4), key_norm = waves({6}, 0.9);

  // The plugin's file has the operators.
  Case() { (void)testing::model_host().load("model", "qwen3"); }
  qwen3::Norms norms(at::ScalarType type = at::kDouble) const {
    return {query_norm.to(type), key_norm.to(type), epsilon};
  }
  ops::RotaryHeads at_once(const at::Tensor& x) const {
    return qwen3::normed_heads(x, heads, norms(x.scalar_type()), positions, frequencies);
  }
  ops::RotaryHeads in_steps(const at::Tensor& x) const {
    const auto parts = x.split_with_sizes({5, 2, 2}, 2);
    const auto placed = [&](const at::Tensor& part, const at::Tensor& norm) {
      return ops::rotary(at::rms_norm(part, {6}, norm, epsilon), positions, frequencies);
    };
    return {placed(parts[0], query_norm), placed(parts[1], key_norm), parts[2]};
  }
};

at::Tensor joined(const ops::RotaryHeads& parts) { return at::cat({parts.q, parts.k, parts.v}, 2); }

// Gradients of the parts come as views of another order of dimensions.
at::Tensor joined_by_head(const ops::RotaryHeads& parts) {
  return at::cat({parts.q.transpose(1, 2), parts.k.transpose(1, 2), parts.v.transpose(1, 2)}, 1);
}

at::Tensor joined_by_feature(const ops::RotaryHeads& parts) {
  return at::cat({parts.q.transpose(1, 3), parts.k.transpose(1, 3), parts.v.transpose(1, 3)}, 2);
}

}  // namespace

TEST_CASE("heads are normed and turned as by both steps, and so are their gradients") {
  const Case given;
  for (const auto join : {joined, joined_by_head, joined_by_feature}) {
    const auto got = all_of([&](const Inputs& x) { return join(given.at_once(x[0])); }, {given.fused});
    const auto wanted = all_of([&](const Inputs& x) { return join(given.in_steps(x[0])); }, {given.fused});
    // Some dozen roundings of waves of order 1 to 10 in float64.
    for (std::size_t i = 0; i < wanted.size(); ++i) CHECK((got[i] - wanted[i]).abs().max().item<double>() < 1e-13);
    CHECK(jacobian_error([&](const Inputs& x) { return join(given.at_once(x[0])); }, {given.fused}) < 1e-8);
  }
}

TEST_CASE("a part of heads that is not used has a gradient of zeros") {
  const Case given;
  const auto of_keys = [&](const Inputs& x) { return given.at_once(x[0]).k; };
  CHECK(jacobian_error(of_keys, {given.fused}) < 1e-8);
  CHECK(all_of(of_keys, {given.fused})[1].narrow(2, 7, 2).eq(0).all().item<bool>());
}

TEST_CASE("heads of a strided product, whose memory stays as it is and has v") {
  const Case given;
  const auto wide = at::constant_pad_nd(given.fused.flatten(2), {1, 2});
  const auto kept = wide.clone(), part = wide.narrow(2, 1, 54).view({2, 4, 9, 6});
  const auto got = given.at_once(part);
  CHECK(at::equal(joined(got), joined(given.at_once(given.fused))));
  CHECK(at::equal(wide, kept));
  CHECK(got.v.data_ptr() == part.narrow(2, 7, 2).data_ptr());
}

TEST_CASE("16 bits are rounded once, forward and backward") {
  const Case given;
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    auto narrow = given;
    narrow.query_norm = given.query_norm.to(type);
    narrow.key_norm = given.key_norm.to(type);
    const auto run = [&](at::ScalarType in) {
      const auto x = given.fused.to(type).to(in).set_requires_grad(true);
      const auto out = joined(narrow.at_once(x));
      const auto weights = waves(out.sizes().vec(), 0.3).to(type).to(in);
      return Inputs{out.detach(), torch::autograd::grad({out}, {x}, {weights})[0]};
    };
    const auto got = run(type), wide = run(at::kFloat);
    for (std::size_t i = 0; i < 2; ++i) CHECK(at::equal(got[i], wide[i].to(type)));
  }
}

TEST_CASE("heads on the meta device have their shapes, and so has the gradient") {
  Case given;
  const auto meta = [](const at::Tensor& x) { return x.to(at::kMeta); };
  given.positions = meta(given.positions);
  given.query_norm = meta(given.query_norm);
  given.key_norm = meta(given.key_norm);
  const auto fused = meta(given.fused).set_requires_grad(true);
  const auto got = given.at_once(fused);
  CHECK(got.q.sizes() == at::IntArrayRef({2, 4, 5, 6}));
  CHECK(got.k.sizes() == at::IntArrayRef({2, 4, 2, 6}));
  CHECK(got.q.storage().nbytes() == 336 * sizeof(double));  // both have it
  CHECK(torch::autograd::grad({got.k}, {fused}, {at::empty_like(got.k)})[0].sizes() == fused.sizes());
}

namespace {

std::unique_ptr<nn::Unit> block() {
  const auto integer = [](std::int64_t value) { return value; };
  auto units = testing::make_model("qwen3", {{"num_layers", integer(1)},
                                             {"hidden_size", integer(12)},
                                             {"num_heads", integer(5)},
                                             {"num_kv_heads", integer(1)},
                                             {"head_dim", integer(6)},
                                             {"ff_dim", integer(20)},
                                             {"vocab_size", integer(31)}})
                   ->build();
  return std::move(units.at(1));
}

bool is_at_once(const Case& given, const at::TensorOptions& options, bool trained) {
  const auto unit = block();
  auto& attention = *unit->all<nn::Attention>().at(0);
  for (auto* norm : {attention.query_norm(), attention.key_norm()})
    norm->weight()->bind(given.query_norm.to(options).set_requires_grad(trained && norm == attention.key_norm()));
  nn::Batch batch;
  batch.positions = given.positions.to(options.device());
  const auto call = attention.heads_call(given.fused.narrow(2, 0, 7).to(options).flatten(2), batch);
  return attention.preparation().row_for(call)->name == "norms and rotation at once";
}

}  // namespace

TEST_CASE("blocks norm and turn at once on GPUs, and where their memory is predicted, if norms are frozen") {
  const Case given;
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    CHECK(is_at_once(given, at::TensorOptions(type).device(at::kMeta), false));
    CHECK_FALSE(is_at_once(given, at::TensorOptions(type).device(at::kMeta), true));
    CHECK_FALSE(is_at_once(given, at::TensorOptions(type), false));
  }
}

TEST_CASE("attention takes q, k and v from the row that norms and turns at once") {
  const Case given;
  nn::Attention::Kind kind;
  kind.spec.heads = {4, 2, 6};
  kind.rotary.emplace(6, 1e4, nn::RotaryScaling{});
  kind.norm_epsilon = epsilon;
  const std::vector<at::Tensor> weights{waves({48, 12}, 0.2), waves({12, 24}, 0.5), given.query_norm, given.key_norm};
  const auto run = [&](bool at_once) {
    nn::Layer root("root");
    std::vector<nn::WeightPtr> bound;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      bound.push_back(std::make_shared<nn::Weight>(std::vector<layout::Param>{
          nn::record(std::to_string(i), weights[i].sizes().vec(), layout::Init::zeros(), true)}));
      bound.back()->bind(weights[i]);
    }
    nn::Attention attention(root, kind, {{bound[0], {}}, {bound[1], {}}, bound[2], bound[3]});
    int asked = 0;
    if (at_once) {
      auto row = qwen3::at_once_row(epsilon);
      row.takes = [](const nn::HeadsCall&) -> nn::Verdict { return {}; };  // on a CPU too
      row.run = [&asked, run = row.run](const nn::HeadsCall& call) {
        ++asked;
        return run(call);
      };
      attention.preparation().add(row);
    }
    nn::Batch batch;
    batch.positions = given.positions;
    auto results =
        all_of([&](const Inputs& x) { return attention.forward(x[0], batch, nullptr); }, {waves({2, 4, 12}, 0.7)});
    CHECK(asked == (at_once ? 1 : 0));
    return results;
  };
  const auto got = run(true), wanted = run(false);
  // Sums of dozens of products of order 10 in float64.
  for (std::size_t i = 0; i < 2; ++i) CHECK((got[i] - wanted[i]).abs().max().item<double>() < 1e-11);
}

}  // namespace heads_test
