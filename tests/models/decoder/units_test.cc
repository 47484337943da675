// What a Spec says is what the units compute, composed by hand from nn's functions. Whole families are compared
// with transformers in tests/system/parity.
#include <ATen/ATen.h>
#include <capstan/config/options.h>
#include <capstan/decoder/decoder.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <cmath>
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

// relu(x U)² D: no kind of nn::Mlp (So et al. 2021).
class Squared : public decoder::FeedForward {
 public:
  Squared(nn::Layer& parent, const std::string& records)
      : FeedForward(parent, "squared"),
        up_(*this, "linear_fc1", nn::WeightSplit::columns, matrix(records + "ff.up.weight", {8, width}), nullptr),
        down_(*this, "linear_fc2", nn::WeightSplit::rows, matrix(records + "ff.down.weight", {width, 8}), nullptr) {}
  at::Tensor forward(const at::Tensor& x) const override { return down_.forward(up_.forward(x).relu().square()); }

 private:
  static nn::WeightPtr matrix(const std::string& name, const layout::Shape& shape) {
    return std::make_shared<nn::Weight>(
        std::vector<layout::Param>{nn::record(name, shape, layout::Init::normal(0.1), true)});
  }
  nn::Linear up_;
  nn::Linear down_;
};

nn::WeightPtr vector(const std::string& name, std::int64_t size, layout::Init init) {
  return std::make_shared<nn::Weight>(std::vector<layout::Param>{nn::record(name, {size}, init, false)});
}

// tanh(alpha x) * weight + bias (Zhu et al. 2025): no kind of Spec::Norm.
class DynamicTanh : public decoder::Norm {
 public:
  DynamicTanh(nn::Layer& parent, const std::string& name, const std::string& module)
      : Norm(parent, name),
        alpha_(own(vector(module + ".alpha", 1, layout::Init::ones()), nn::Use::states)),
        weight_(own(vector(module + ".weight", width, layout::Init::ones()), nn::Use::states)),
        bias_(own(vector(module + ".bias", width, layout::Init::zeros()), nn::Use::states)) {}
  at::Tensor forward(const at::Tensor& x) const override {
    return (alpha_->value() * x).tanh() * weight_->value() + bias_->value();
  }

 private:
  nn::WeightPtr alpha_;
  nn::WeightPtr weight_;
  nn::WeightPtr bias_;
};

// Layer normalisation without a bias.
class Unbiased : public decoder::Norm {
 public:
  Unbiased(nn::Layer& parent, const std::string& name, const std::string& module)
      : Norm(parent, name), weight_(own(vector(module + ".weight", width, layout::Init::ones()), nn::Use::states)) {}
  at::Tensor forward(const at::Tensor& x) const override {
    return at::layer_norm(x, {width}, weight_->value(), {}, 1e-3);
  }

 private:
  nn::WeightPtr weight_;
};

// The first norm of each block is one kind, the second another, the head's that of the spec.
decoder::Spec with_own_norms() {
  auto spec = tiny();
  spec.own_norm = [](nn::Layer& parent, const std::string& name,
                     const std::string& module) -> std::unique_ptr<decoder::Norm> {
    if (name == "norm1") return std::make_unique<DynamicTanh>(parent, name, module);
    if (name == "norm2") return std::make_unique<Unbiased>(parent, name, module);
    return nullptr;
  };
  return spec;
}

// The second of two blocks has it.
decoder::Spec with_squared() {
  auto spec = tiny();
  spec.num_layers = 2;
  spec.feed_forward = [](nn::Layer& parent, std::int64_t block, const std::string& records) {
    return block == 1 ? std::make_unique<Squared>(parent, records) : nullptr;
  };
  return spec;
}

struct NoOptions {
  static void describe(config::OptionTable<NoOptions>& /*t*/) {}
};

// A model of one of the specs above, which is large enough for the tiny data.
template <decoder::Spec (*make)()>
class ModelOf : public decoder::Model {
 public:
  explicit ModelOf(const config::Options<NoOptions>& /*options*/) {}
  void check(Diagnostics&) const override {}

 protected:
  decoder::Spec spec() const override {
    auto spec = make();
    spec.vocab_size = 261;
    spec.max_positions = 24;
    return spec;
  }
  void describe_files(layout::FileMap&) const override {}
};

template <decoder::Spec (*make)()>
testing::TrainResult trained(int world, const std::string& tables) {
  return testing::train({.world = world,
                         .config = "[model]\nplugin = \"own\"\n" + tables,
                         .steps = 4,
                         .types = {testing::type<nn::Model, ModelOf<make>, NoOptions>("model", "own")}});
}

}  // namespace

TEST_CASE("a block's feed-forward layer is the model's own where it makes one, and the other layers stay") {
  const auto spec = with_squared();
  const auto units = decoder::units(spec);
  CHECK(units[1]->all<nn::Mlp>().size() == 1);
  CHECK(units[1]->all<Squared>().empty());
  CHECK(units[2]->all<nn::Mlp>().empty());
  CHECK(units[2]->all<Squared>().size() == 1);
  CHECK(units[2]->all<nn::Attention>().size() == 1);
  for (const auto& unit : units) CHECK(unit->undeclared().empty());
  const auto files = decoder::files(spec);
  CHECK(files.tensors.at("model.layers.1.ff.up.weight").name == "layers.1.ff.up.weight");
  CHECK_FALSE(files.tensors.contains("model.layers.1.mlp.down_proj.weight"));

  const Filled filled(spec);
  nn::Hidden hidden;
  hidden.states = numbers({1, length, width}, 0.3);
  const auto out = filled.units[2]->forward(hidden, batch(), nullptr).states;
  const std::string block = "model.layers.1.";
  const auto& v = filled.values;
  auto of_second = v;  // attend() reads the first block's
  for (const auto& [name, value] : v) {
    if (name.starts_with(block)) of_second["model.layers.0." + name.substr(block.size())] = value;
  }
  const auto x = hidden.states + attend(of_second, rms(hidden.states, v.at(block + "input_layernorm.weight")));
  const auto inner = at::linear(rms(x, v.at(block + "post_attention_layernorm.weight")), v.at(block + "ff.up.weight"));
  CHECK(difference(out, x + at::linear(inner.relu().square(), v.at(block + "ff.down.weight"))) < 1e-13);
}

TEST_CASE("a model with a feed-forward layer of its own is split over ranks, and its operations are counted") {
  const auto run = trained<with_squared>;
  const auto alone = run(1, "");
  CHECK(alone.weights.contains("model.layers.1.ff.up.weight"));
  CHECK(testing::differences(run(2, "[strategy.fsdp]\n"), alone, 1e-10) == "");
  CHECK(testing::differences(run(2, "[strategy.tensor_parallel]\nsize = 2\nvocab_parallel = false\n"), alone, 1e-10) ==
        "");
  CHECK(testing::differences(run(1, "[strategy.recompute]\nregions = [\"mlp\"]\n"), alone, 1e-10) == "");
  Diagnostics none;
  const ModelOf<with_squared> model{config::Options<NoOptions>(config::Section{"model", {}, {}}, none)};
  // 6 a weight: q, k, v and the output product 4 times 6 x 4 in two blocks with a key head for two query heads, gate,
  // up and down 3 x 6 x 5 in the first, 2 x 6 x 8 in the second, and the head; attention sees half a token.
  const auto attention = 2 * (6 * 8 + 2 * 6 * 4 + 8 * 6);
  CHECK(model.flops_per_token(1) == 6.0 * (attention + 3 * 6 * 5 + 2 * 6 * 8 + 261 * 6) + 12.0 * 8 * 2 * 0.5);
}

TEST_CASE("norms of a model's own stand where the spec's would, and others stay") {
  const auto spec = with_own_norms();
  const Filled filled(spec);
  for (const auto& unit : filled.units) CHECK(unit->undeclared().empty());
  CHECK(filled.units[1]->all<nn::RmsNorm>().empty());
  CHECK(filled.units[1]->all<DynamicTanh>().size() == 1);
  CHECK(decoder::files(spec).tensors.at("model.layers.0.input_layernorm.alpha").name ==
        "layers.0.input_layernorm.alpha");
  const auto& v = filled.values;
  const auto of = [&](const char* name) { return v.at(std::string("model.layers.0.") + name); };
  auto x = at::embedding(v.at("model.embed_tokens.weight"), batch().tokens);
  x = x +
      attend(v, (of("input_layernorm.alpha") * x).tanh() * of("input_layernorm.weight") + of("input_layernorm.bias"));
  x = x + feed(v, at::layer_norm(x, {width}, of("post_attention_layernorm.weight"), {}, 1e-3));
  CHECK(difference(logits(filled), last_logits(v, x)) < 1e-13);
}

TEST_CASE("norms of a model's own on ranks that share parameters, layers and positions") {
  const auto run = trained<with_own_norms>;
  const auto alone = run(1, "");
  CHECK(alone.weights.contains("model.layers.0.input_layernorm.alpha"));
  const std::string split = "[strategy.tensor_parallel]\nsize = 2\nvocab_parallel = false\n";
  CHECK(testing::differences(run(2, "[strategy.fsdp]\n"), alone, 1e-10) == "");
  CHECK(testing::differences(run(2, split), alone, 1e-10) == "");
  CHECK(testing::differences(run(2, split + "sequence_parallel = true\n"), alone, 1e-10) == "");
  CHECK(testing::differences(run(4, split + "sequence_parallel = true\n[strategy.fsdp]\n"), alone, 1e-10) == "");
  CHECK(testing::differences(run(2, "[strategy.context_parallel]\nsize = 2\n"), alone, 1e-10) == "");
  CHECK(testing::differences(run(1, "[strategy.recompute]\n"), alone, 1e-10) == "");
}

TEST_CASE("a plain layer and experts side by side have norms of their own, and the router sees the states") {
  for (const bool parallel : {false, true}) {
    auto spec = tiny();
    spec.norm_after = true;
    spec.parallel = parallel;
    spec.names.attention_post_norm = "after_attention";
    spec.names.mlp_post_norm = "after_both";
    spec.mixture.count = spec.mixture.per_token = 2;  // each token goes to both
    spec.mixture.beside_dense = true;
    spec.mixture.dense_ff_dim = 7;
    spec.mixture.router.scaled = true;
    spec.names.router = "router.proj";
    spec.names.experts = "experts";
    const Filled filled(spec);
    const auto& v = filled.values;
    const auto block = [&](const std::string& name) { return v.at("model.layers.0." + name); };
    const auto norm = [&](const std::string& name, const at::Tensor& x) { return rms(x, block(name + ".weight")); };
    const auto in = at::embedding(v.at("model.embed_tokens.weight"), batch().tokens);
    const auto mid = in + norm("after_attention", attend(v, norm("input_layernorm", in)));
    const auto x = parallel ? in : mid;

    const auto dense = norm("post_feedforward_layernorm_1", feed(v, norm("post_attention_layernorm", x)));
    const auto seen = rms(x, block("router.scale")) / std::sqrt(static_cast<double>(width));
    const auto weights =
        at::softmax(at::linear(seen, block("router.proj.weight")), -1) * block("router.per_expert_scale");
    auto mixed = at::zeros_like(x);
    for (std::int64_t e = 0; e < 2; ++e) {
      const auto gate_up = block("experts.gate_up_proj")[e], read = norm("pre_feedforward_layernorm_2", x);
      const auto inner = at::silu(at::linear(read, gate_up[0])) * at::linear(read, gate_up[1]);
      mixed = mixed + weights.select(-1, e).unsqueeze(-1) * at::linear(inner, block("experts.down_proj")[e]);
    }
    const auto out = mid + norm("after_both", dense + norm("post_feedforward_layernorm_2", mixed));
    INFO(parallel);
    CHECK(difference(logits(filled), last_logits(v, out)) < 1e-13);
  }
}

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

TEST_CASE("layers side by side after one norm, which may be a layer norm without a bias") {
  const std::string layer = "model.layers.0.";
  auto spec = tiny();
  spec.parallel = spec.one_norm = true;
  spec.norm = decoder::Spec::Norm::layer;
  spec.norm_bias = false;
  const Filled filled(spec);
  const auto& v = filled.values;
  const auto norm = [&](const at::Tensor& x, const std::string& module) {
    const auto apart = x - x.mean(-1, true);
    return apart / (apart.square().mean(-1, true) + 1e-3).sqrt() * v.at(module + ".weight");
  };
  auto x = at::embedding(v.at("model.embed_tokens.weight"), batch().tokens);
  const auto normed = norm(x, layer + "input_layernorm");
  x = x + attend(v, normed) + feed(v, normed);
  const auto last = norm(x, "model.norm").select(1, length - 1);
  CHECK(difference(logits(filled), at::linear(last, v.at("lm_head.weight"))) < 1e-13);
  CHECK(v.count(layer + "post_attention_layernorm.weight") == 0);
  CHECK(v.count(layer + "input_layernorm.bias") == 0);
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
