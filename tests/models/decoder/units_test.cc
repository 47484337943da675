// What a Spec says is what the units compute, composed by hand from nn's functions. Whole families are compared
// with transformers in tests/system/parity.
#include <ATen/ATen.h>
#include <capstan/decoder/decoder.h>
#include <capstan_catch.h>

#include <map>

#include "models/decoder/tiny.h"
#include "nn/weights.h"

namespace units_test {

using namespace capstan;
using namespace decoder_test;
using capstan::testing::difference;
using capstan::testing::numbers;

namespace {

using Values = std::map<std::string, at::Tensor>;

/// The decoder with uneven values in its weights, and these by name.
struct Filled {
  explicit Filled(const decoder::Spec& spec) : units(decoder::units(spec)) {
    double phase = 0.2;
    for (const auto& unit : units) {
      for (const auto& weight : unit->weights()) {
        auto shape = weight->records().front().shape;
        shape.front() = 0;
        for (const auto& record : weight->records()) shape.front() += record.shape.front();
        if (!weight->is_bound()) weight->bind(numbers(shape, phase += 0.7) * 0.4);
        values[weight->name()] = weight->value();
      }
    }
  }
  std::vector<std::unique_ptr<nn::Unit>> units;
  Values values;
};

nn::Batch batch() {
  nn::Batch made;
  made.tokens = at::tensor({3, 1, 6, 1}, at::kLong).view({1, length});
  made.positions = at::arange(length, at::kLong).unsqueeze(0);
  made.sample_ids = at::zeros({1}, at::kLong);
  made.last = at::full({1}, length - 1, at::kLong);
  return made;
}

at::Tensor logits(const Filled& filled) {
  nn::Hidden hidden;
  for (const auto& unit : filled.units) hidden = unit->forward(std::move(hidden), batch(), nullptr);
  return hidden.states;
}

at::Tensor rms(const at::Tensor& x, const at::Tensor& weight) {
  return x / (x.square().mean(-1, true) + 1e-3).sqrt() * weight;
}

at::Tensor attend(const Values& v, const at::Tensor& x) {
  const auto block = [&](const std::string& name) { return v.at("model.layers.0.self_attn." + name); };
  const auto qkv = at::linear(x, block("q_proj+k_proj+v_proj.weight")).view({1, length, 4, 4}).transpose(1, 2);
  const auto scores = at::matmul(qkv.narrow(1, 0, 2), qkv.narrow(1, 2, 1).transpose(-2, -1)) / 2;
  const auto mask = at::ones({length, length}, at::kBool).tril().logical_not();
  const auto y = at::matmul(at::softmax(scores.masked_fill(mask, -1e300), -1), qkv.narrow(1, 3, 1));
  return at::linear(y.transpose(1, 2).flatten(2), block("o_proj.weight"));
}

at::Tensor feed(const Values& v, const at::Tensor& x) {
  const auto both = at::linear(x, v.at("model.layers.0.mlp.gate_proj+up_proj.weight")).chunk(2, -1);
  return at::linear(at::silu(both[0]) * both[1], v.at("model.layers.0.mlp.down_proj.weight"));
}

at::Tensor last_logits(const Values& v, const at::Tensor& x) {
  const auto normed = rms(x, v.at("model.norm.weight"));
  return at::linear(normed.select(1, length - 1), v.at("lm_head.weight"));
}

}  // namespace

TEST_CASE("norms before, after, and both") {
  const std::string layer = "model.layers.0.";
  for (const bool before : {false, true}) {
    for (const bool after : {false, true}) {
      auto spec = tiny();
      spec.norm_before = before;
      spec.norm_after = after;
      spec.names.attention_post_norm = "after_attention";
      spec.names.mlp_post_norm = "after_mlp";
      const Filled filled(spec);
      const auto& v = filled.values;
      const auto norm = [&](bool wanted, const std::string& name, const at::Tensor& x) {
        return wanted ? rms(x, v.at(layer + name + ".weight")) : x;
      };
      auto x = at::embedding(v.at("model.embed_tokens.weight"), batch().tokens);
      x = x + norm(after, "after_attention", attend(v, norm(before, "input_layernorm", x)));
      x = x + norm(after, "after_mlp", feed(v, norm(before, "post_attention_layernorm", x)));
      INFO(before << after);
      CHECK(difference(logits(filled), last_logits(v, x)) < 1e-13);
      CHECK(v.count(layer + "input_layernorm.weight") == (before ? 1 : 0));
    }
  }
}

TEST_CASE("multipliers of the embedding, of what is added to the residual, and of the logits") {
  auto spec = tiny();
  spec.embedding_multiplier = 3;
  spec.residual_multiplier = 0.5;
  spec.logits_multiplier = 0.25;
  const Filled filled(spec);
  const auto& v = filled.values;
  auto x = 3 * at::embedding(v.at("model.embed_tokens.weight"), batch().tokens);
  x = x + 0.5 * attend(v, rms(x, v.at("model.layers.0.input_layernorm.weight")));
  x = x + 0.5 * feed(v, rms(x, v.at("model.layers.0.post_attention_layernorm.weight")));
  CHECK(difference(logits(filled), 0.25 * last_logits(v, x)) < 1e-13);
}

}  // namespace units_test
