// What a Spec says is what the units compute, composed by hand from nn's functions. Whole families are compared
// with transformers in tests/system/parity.
#include <ATen/ATen.h>
#include <capstan/decoder/decoder.h>
#include <capstan/decoder/layer_norm_options.h>
#include <capstan_catch.h>

#include <map>

#include "nn/weights.h"

using namespace capstan;
using capstan::testing::difference;
using capstan::testing::numbers;

namespace {

constexpr std::int64_t words = 7, width = 6, length = 4;

decoder::Spec tiny() {
  decoder::Spec spec;
  spec.vocab_size = words;
  spec.hidden_size = width;
  spec.num_layers = 1;
  spec.max_positions = 9;
  spec.ff_dim = 5;
  spec.heads = {2, 1, 4};
  spec.norm_epsilon = 1e-3;
  return spec;
}

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

TEST_CASE("a tied head is the table, and its copy in files is passed over; experts are stacks in files") {
  auto spec = tiny();
  spec.tied_head = true;
  spec.mixture.count = 2;
  const auto units = decoder::units(spec);
  CHECK(units.front()->weights().front() == units.back()->weights().back());
  const auto files = decoder::files(spec);
  CHECK(files.tensors.at("model.layers.0.mlp.experts.down_proj").stack ==
        std::vector<std::string>{"layers.0.mlp.experts.0.down_proj.weight", "layers.0.mlp.experts.1.down_proj.weight"});
  CHECK(files.tensors.at("model.layers.0.mlp.experts.gate_up_proj").stack.size() == 4);
  for (const auto& unit : units) CHECK(unit->undeclared().empty());
}

namespace {

// GPT-NeoX's names in transformers: a fused q, k and v by heads, and a head that is not called lm_head.
decoder::Spec neox() {
  auto spec = tiny();
  spec.heads = {2, 2, 4};
  spec.qkv_bias = true;
  spec.names.prefix = "gpt_neox.";
  spec.names.tokens = "gpt_neox.embed_in";
  spec.names.block = "gpt_neox.layers.";
  spec.names.qkv = {"attention.query_key_value"};
  spec.names.norm = "gpt_neox.final_layer_norm";
  spec.names.head = "embed_out";
  return spec;
}

std::string published(const layout::FileMap& files, const std::string& record) {
  return files.published(files.tensors.at(record).name);
}

}  // namespace

TEST_CASE("files have the head under its own name, and a fused q, k and v as one matrix") {
  const auto files = decoder::files(neox());
  CHECK(published(files, "embed_out.weight") == "embed_out.weight");
  CHECK(published(files, "gpt_neox.embed_in.weight") == "gpt_neox.embed_in.weight");
  const std::string qkv = "gpt_neox.layers.0.attention.query_key_value.";
  CHECK(published(files, qkv + "weight") == qkv + "weight");
  CHECK(files.tensors.at(qkv + "weight").expected_shape({2, 3, 4, width}) == layout::Shape{24, width});
  CHECK(files.tensors.at(qkv + "bias").expected_shape({2, 3, 4}) == layout::Shape{24});

  auto inside = neox();
  inside.names.head = "gpt_neox.output_layer";
  const auto within = decoder::files(inside);
  CHECK(within.unprefixed.empty());
  CHECK(published(within, "gpt_neox.output_layer.weight") == "gpt_neox.output_layer.weight");
  CHECK(decoder::files(tiny()).unprefixed == std::vector<std::string>{"lm_head.weight"});
}

namespace {

// A family whose config.json calls some sizes what the options are called.
struct OwnNames : decoder::LayerNormOptions {
  static void describe(config::OptionTable<OwnNames>& t) {
    decoder::describe_layer_norm_sizes(t,
                                       {"hidden_size", {"num_layers", "num_hidden_layers"}, {"num_attention_heads"}});
  }
};

}  // namespace

TEST_CASE("a size that files call what the option is called has no spelling that is its key") {
  std::map<std::string, std::vector<std::string>> spellings;
  for (const auto& spec : config::Options<OwnNames>::schema()) spellings[spec.key] = spec.spellings;
  CHECK(spellings.at("hidden_size").empty());
  CHECK(spellings.at("num_layers") == std::vector<std::string>{"num_hidden_layers"});
  CHECK(spellings.at("num_heads") == std::vector<std::string>{"num_attention_heads"});
}
