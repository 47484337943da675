// Layers of a model's own kind, norms of heads, and records that no layer owns.
#include <ATen/ATen.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "plugins/strategies/tensor_parallel/tensor_parallel.h"

namespace kinds_test {

using namespace capstan;
using layout::Init;

namespace {

constexpr std::int64_t words = 261, width = 16, inner = 20, heads = 4, dim = 6;

struct OwnOptions {
  bool raw = false;        ///< a record that the block uses itself
  bool all_heads = false;  ///< norms of the features of all heads, not by head
  bool scaled = false;     ///< a block with attention of its own, whose heads share a record
  bool declared = true;    ///< that record's use
  std::int64_t keys = 2;
  static void describe(config::OptionTable<OwnOptions>& t) {
    t.add("raw", &OwnOptions::raw).doc("");
    t.add("all_heads", &OwnOptions::all_heads).doc("");
    t.add("scaled", &OwnOptions::scaled).doc("");
    t.add("declared", &OwnOptions::declared).doc("");
    t.add("keys", &OwnOptions::keys).doc("");
  }
};

/// A kind of layer that no strategy knows.
class Gain : public nn::Layer {
 public:
  Gain(nn::Layer& parent, nn::WeightPtr weight)
      : Layer(parent, "gain"), weight_(own(std::move(weight), nn::Use::states)) {}
  at::Tensor forward(const at::Tensor& x) const { return x * weight_->value(); }

 private:
  nn::WeightPtr weight_;
};

class Tokens : public nn::Unit {
 public:
  Tokens()
      : Unit("embedding"),
        table_(*this, "tokens", nn::WeightSplit::vocabulary,
               add_record("tokens.weight", {words, width}, Init::normal(0.2), true)) {}
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache*) override {
    hidden.states = table_.forward(batch.tokens);
    return hidden;
  }

 private:
  nn::Embedding table_;
};

class Block : public nn::Unit {
 public:
  explicit Block(const OwnOptions& o)
      : Unit("blocks.0"),
        attention_(*this, kind(o.keys), weights(o)),
        mlp_(*this, {nn::Activation::gelu, true}, {fused("gate", "up"), nullptr},
             {matrix("down.weight", {width, inner}), nullptr}),
        gain_(*this, vector("gain.weight", width)),
        raw_(o.raw ? vector("raw.weight", width) : nullptr) {}
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) override {
    auto x = hidden.states;
    x = x + attention_.forward(gain_.forward(x), batch, cache);
    x = x + mlp_.forward(x);
    hidden.states = raw_ ? x * raw_->value() : x;
    return hidden;
  }

 private:
  static nn::Attention::Kind kind(std::int64_t keys) {
    nn::Attention::Kind kind;
    kind.spec.heads = {heads, keys, dim};
    kind.rotary = nn::Rotary(dim, 1e4, {});
    kind.norm_epsilon = 1e-3;
    return kind;
  }
  nn::Attention::Weights weights(const OwnOptions& o) {
    const auto record = [](const char* name, std::int64_t out) {
      return nn::record(name, {out, width}, Init::normal(0.3), true);
    };
    nn::Attention::Weights weights;
    weights.qkv.weight = add_group(
        {record("q.weight", heads * dim), record("k.weight", o.keys * dim), record("v.weight", o.keys * dim)});
    weights.projection.weight = matrix("out.weight", {width, heads * dim});
    weights.query_norm = vector("q_norm.weight", o.all_heads ? heads * dim : dim);
    weights.key_norm = vector("k_norm.weight", o.all_heads ? o.keys * dim : dim);
    return weights;
  }
  nn::WeightPtr fused(const char* first, const char* second) {
    const auto record = [](const std::string& name) {
      return nn::record(name + ".weight", {inner, width}, Init::normal(0.3), true);
    };
    return add_group({record(first), record(second)});
  }
  nn::WeightPtr matrix(const char* name, const layout::Shape& shape) {
    return add_record(name, shape, Init::normal(0.3), true);
  }
  nn::WeightPtr vector(const char* name, std::int64_t size) {
    return add_record(name, {size}, Init::normal(0.2, 1), false);
  }
  nn::Attention attention_;
  nn::Mlp mlp_;
  Gain gain_;
  nn::WeightPtr raw_;
};

/// Attention that the unit computes itself, with a factor for each of a head's features.
class ScaledAttention : public nn::Unit {
 public:
  explicit ScaledAttention(bool declared)
      : Unit("blocks.1"),
        q_(linear("q", nn::WeightSplit::columns)),
        k_(linear("k", nn::WeightSplit::columns)),
        v_(linear("v", nn::WeightSplit::columns)),
        out_(linear("out", nn::WeightSplit::rows)),
        dropout_(*this, "blocks.1.dropout", 0),
        scale_(add_record("own.scale", {dim}, Init::normal(0.2, 1), false,
                          declared ? nn::Use::heads : nn::Use::undeclared)) {}
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) override {
    const auto& x = hidden.states;
    const auto heads_of = [&](const nn::Linear& linear) {
      const auto y = linear.forward(x);
      return y.view({y.size(0), y.size(1), -1, dim});
    };
    const auto q = (heads_of(q_) * scale_->value()).transpose(1, 2);
    const auto k = heads_of(k_).transpose(1, 2), v = heads_of(v_).transpose(1, 2);
    const auto y = nn::causal_attention(q, k, v, dropout_, batch, cache, 1, {std::nullopt, 5});
    hidden.states = x + out_.forward(y.transpose(1, 2).flatten(2));
    return hidden;
  }

 private:
  nn::Linear linear(const std::string& part, nn::WeightSplit split) {
    const auto features = heads * dim;
    const auto shape = split == nn::WeightSplit::rows ? layout::Shape{width, features} : layout::Shape{features, width};
    return {*this, part, split, add_record("own." + part + ".weight", shape, Init::normal(0.3), true), nullptr};
  }
  nn::Linear q_;
  nn::Linear k_;
  nn::Linear v_;
  nn::Linear out_;
  nn::Dropout dropout_;
  nn::WeightPtr scale_;
};

class Head : public nn::Unit {
 public:
  Head()
      : Unit("head"), head_(*this, "lm_head", add_record("lm_head.weight", {words, width}, Init::normal(0.2), true)) {}
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache*) override {
    hidden.states = head_.forward(hidden.states, batch);
    return hidden;
  }

 private:
  nn::VocabularyHead head_;
};

class Own : public nn::Model {
 public:
  explicit Own(config::Options<OwnOptions> options) : options_(std::move(options)) {}
  void check(Diagnostics&) const override {}
  nn::ModelFacts facts() const override {
    nn::ModelFacts facts;
    facts.vocab_size = words;
    facts.max_positions = 24;
    facts.hidden_size = width;
    facts.num_layers = options_->scaled ? 2 : 1;
    facts.num_heads = heads;
    facts.num_kv_heads = options_->keys;
    return facts;
  }
  std::vector<std::unique_ptr<nn::Unit>> build() const override {
    std::vector<std::unique_ptr<nn::Unit>> units;
    units.push_back(std::make_unique<Tokens>());
    units.push_back(std::make_unique<Block>(*options_));
    if (options_->scaled) units.push_back(std::make_unique<ScaledAttention>(options_->declared));
    units.push_back(std::make_unique<Head>());
    return units;
  }
  double flops_per_token(std::int64_t) const override { return 1; }
  layout::FileMap file_map() const override { return {}; }

 private:
  config::Options<OwnOptions> options_;
};

testing::TrainResult train(int world, const std::string& config) {
  return testing::train({.world = world,
                         .config = "[model]\nplugin = \"own\"\n" + config,
                         .steps = 3,
                         .types = {testing::type<nn::Model, Own, OwnOptions>("model", "own")}});
}

std::string tensor(int size, const std::string& more = "") {
  return "[strategy.tensor_parallel]\nsize = " + std::to_string(size) + "\n" + more;
}

std::string error_of(int world, const std::string& config) {
  try {
    train(world, config);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

// Each rank has some of the heads, so that what it adds to a norm's gradient is a part: the layer says so, the model
// does not. Two key heads on four ranks are held by two each.
TEST_CASE("norms of q and k, and a layer of a kind of its own, learn on ranks what they learn on one rank") {
  for (const std::string model : {"", "all_heads = true\n", "all_heads = true\nkeys = 1\n", "scaled = true\n"}) {
    const auto alone = train(1, model);
    for (const auto& [world, more] : std::vector<std::pair<int, std::string>>{
             {2, ""}, {4, ""}, {2, "sequence_parallel = true\n"}, {4, "sequence_parallel = true\n"}}) {
      INFO(world << " ranks\n" << model << more);
      // Sums in float64 in another order.
      CHECK(testing::differences(train(world, model + tensor(world, more)), alone, 1e-10) == "");
    }
  }
}

TEST_CASE("a layer of a kind that the strategy does not know is told") {
  Diagnostics diagnostics;
  const std::vector<config::Entry> entries{{"size", std::int64_t{2}, {}}};
  tensor_parallel::TensorParallel plugin({{"strategy.tensor_parallel", {}, entries}, diagnostics});
  std::vector<std::unique_ptr<nn::Unit>> units;
  units.push_back(std::make_unique<Block>(OwnOptions{}));
  plugin.structure(units);
  CHECK(plugin.notes() ==
        std::vector<std::string>{"tensor_parallel does not know the kind of layer blocks.0/gain and leaves it whole"});
}

TEST_CASE("a record that the unit uses itself, next to layers that are split, is refused by name") {
  CHECK(error_of(1, "raw = true\n").empty());
  CHECK_THAT(
      error_of(2, "raw = true\n" + tensor(2)),
      Contains("unit blocks.0 uses raw.weight together with q.weight, which ranks share, and no layer declares what a "
               "rank does with it"));
  CHECK_THAT(error_of(2, "scaled = true\ndeclared = false\n" + tensor(2)),
             Contains("unit blocks.1 uses own.scale together with own.q.weight") &&
                 Contains("declare it where it is added (add_record(…, nn::Use::heads))"));
  CHECK_THAT(error_of(2, "raw = true\n" + tensor(2, "sequence_parallel = true\n")),
             Contains("unit blocks.0 uses raw.weight on its part of the sequence"));
}

}  // namespace kinds_test
