// The tree that layers make, what they declare of their weights, and what is refused.
#include <capstan/nn/model.h>
#include <capstan_catch.h>

#include <memory>

#include "nn/weights.h"

using namespace capstan;
using capstan::testing::numbers;

namespace {

nn::WeightPtr weight(const std::string& name, const layout::Shape& shape) {
  return std::make_shared<nn::Weight>(std::vector<layout::Param>{nn::record(name, shape, layout::Init::zeros(), true)});
}

/// A kind of layer that nn does not have.
class Gain : public nn::Layer {
 public:
  Gain(nn::Layer& parent, nn::WeightPtr weight)
      : Layer(parent, "gain"), weight_(own(std::move(weight), nn::Use::states)) {}

 private:
  nn::WeightPtr weight_;
};

/// A feed-forward layer and a gain; with `raw`, a record that the unit uses itself.
class Block : public nn::Unit {
 public:
  explicit Block(bool raw = false)
      : Unit("blocks.0"),
        norm_(*this, "norm", weight("norm.weight", {4}), 1e-6),
        mlp_(*this, {nn::Activation::gelu, false}, {weight("up.weight", {6, 4}), weight("up.bias", {6})},
             {weight("down.weight", {4, 6}), weight("down.bias", {4})}),
        gain_(*this, weight("gain.weight", {4})) {
    if (raw) add_record("raw.weight", {4}, layout::Init::ones(), false);
  }
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch&, nn::KVCache*) override { return hidden; }

 private:
  nn::RmsNorm norm_;
  nn::Mlp mlp_;
  Gain gain_;
};

std::vector<std::string> paths(const nn::Unit& unit) {
  std::vector<std::string> list;
  unit.each<nn::Layer>([&](const nn::Layer& layer) { list.push_back(layer.path()); });
  return list;
}

std::vector<std::string> names(const std::vector<nn::WeightPtr>& weights) {
  std::vector<std::string> list;
  for (const auto& one : weights) list.push_back(one->name());
  return list;
}

nn::Use use_of(const nn::Unit& unit, const std::string& name) {
  auto found = nn::Use::undeclared;
  unit.each<nn::Layer>([&](const nn::Layer& layer) {
    for (const auto& owned : layer.owned()) {
      if (owned.weight->name() == name) found = owned.use;
    }
  });
  return found;
}

}  // namespace

TEST_CASE("a layer is in its parent's tree from the start, and a walk meets parents first") {
  const Block block;
  CHECK(paths(block) == std::vector<std::string>{"blocks.0", "blocks.0/norm", "blocks.0/mlp", "blocks.0/mlp/linear_fc1",
                                                 "blocks.0/mlp/linear_fc2", "blocks.0/gain"});
  CHECK(block.all<nn::Linear>().size() == 2);
  CHECK(block.all<Gain>().size() == 1);
  CHECK(block.all<nn::Embedding>().empty());
  CHECK(block.all<nn::Linear>()[1]->parent() == block.all<nn::Mlp>()[0]);
}

TEST_CASE("a unit's weights are those of its layers, in the order in which they were made") {
  const Block block(true);
  CHECK(names(block.weights()) == std::vector<std::string>{"norm.weight", "up.weight", "up.bias", "down.weight",
                                                           "down.bias", "gain.weight", "raw.weight"});
  CHECK(names(block.all<nn::Mlp>()[0]->weights()).size() == 4);
}

TEST_CASE("a layer that goes leaves the tree, and one that outlives its root stands by itself") {
  auto root = std::make_unique<nn::Layer>("root");
  const nn::Dropout stays(*root, "stays", 0.1);
  { const nn::Dropout goes(*root, "goes", 0.1); }
  CHECK(root->children().size() == 1);
  root.reset();
  CHECK(stays.parent() == nullptr);
  CHECK(stays.path() == "stays");
}

TEST_CASE("ports have names and owners") {
  nn::Layer root("root");
  nn::Linear linear(root, "linear", nn::WeightSplit::none, weight("w", {2, 2}), nullptr);
  std::vector<std::string> list;
  linear.after.fill("mine", [](const at::Tensor& y) { return y; });
  for (const auto* port : linear.ports()) list.push_back(port->name() + " " + port->owner());
  CHECK(list == std::vector<std::string>{"before ", "after mine", "multiply ", "adapter "});
}

TEST_CASE("layers declare what a rank does with their weights") {
  const Block block(true);
  CHECK(use_of(block, "norm.weight") == nn::Use::states);
  CHECK(use_of(block, "up.bias") == nn::Use::split);
  CHECK(use_of(block, "down.weight") == nn::Use::split);
  CHECK(use_of(block, "down.bias") == nn::Use::states);  // added to the sum
  CHECK(names(block.undeclared()) == std::vector<std::string>{"raw.weight"});
  CHECK(Block().undeclared().empty());
}

TEST_CASE("a record that the unit uses itself is declared where it is added, and two layers declare one use") {
  class Own : public nn::Unit {
   public:
    Own() : Unit("own") { scale = add_record("scale", {2}, layout::Init::ones(), false, nn::Use::heads); }
    nn::Hidden forward(nn::Hidden hidden, const nn::Batch&, nn::KVCache*) override { return hidden; }
    nn::WeightPtr scale;
  };
  Own unit;
  CHECK(use_of(unit, "scale") == nn::Use::heads);
  CHECK(unit.undeclared().empty());
  CHECK_NOTHROW(nn::RmsNorm(unit, "q_norm", unit.scale, 1e-6, nn::Use::heads));
  CHECK_THROWS_WITH(nn::RmsNorm(unit, "norm", unit.scale, 1e-6),
                    Contains("layers own and own/norm both own scale and declare different uses of it"));
}

TEST_CASE("a norm of heads says so: one vector for every head, or one of all heads' features") {
  for (const std::int64_t size : {2, 8}) {
    nn::Layer root("root");
    nn::Attention::Kind kind;
    kind.heads = {4, 2, 2};
    const nn::Attention attention(root, kind,
                                  {{weight("qkv", {16, 8}), nullptr},
                                   {weight("out", {8, 8}), nullptr},
                                   weight("q_norm", {size}),
                                   weight("k_norm", {size / 2 < 2 ? 2 : size / 2})});
    for (const auto* norm : attention.all<nn::RmsNorm>())
      CHECK(norm->use() == (size == 2 ? nn::Use::heads : nn::Use::split));
  }
}

TEST_CASE("kinds of layers that nn does not have are told, each with its path") {
  std::vector<std::unique_ptr<nn::Unit>> units;
  units.push_back(std::make_unique<Block>());
  CHECK(nn::layers_of_other_kinds(*units[0]).size() == 1);
  CHECK(nn::notes_on_other_kinds(units, "mine") ==
        std::vector<std::string>{"mine does not know the kind of layer blocks.0/gain and leaves it whole"});
  units.push_back(std::make_unique<Block>());
  CHECK(nn::notes_on_other_kinds(units, "mine").front() ==
        "mine does not know the kind of layer blocks.0/gain (and of 1 more of that name) and leaves it whole");
}

TEST_CASE("a record that no layer owns is refused next to one that ranks share, and only there") {
  Block block(true);
  CHECK_NOTHROW(nn::refuse_undeclared(block));
  auto& up = block.weights()[1]->records().front();
  up.compute = up.compute.with({0, {layout::Axis::ep}});  // whose ranks see other samples
  CHECK_NOTHROW(nn::refuse_undeclared(block));
  up.compute = up.compute.with({1, {layout::Axis::tp}});
  CHECK_THROWS_WITH(
      nn::refuse_undeclared(block),
      Contains("unit blocks.0 uses raw.weight together with up.weight, which ranks share, and no layer declares") &&
          Contains("let a layer own it"));
  Block declared;
  auto& other = declared.weights()[1]->records().front();
  other.compute = other.compute.with({0, {layout::Axis::tp}});
  CHECK_NOTHROW(nn::refuse_undeclared(declared));
}

TEST_CASE("parameters: every record once, in order, of one unit or of all") {
  std::vector<std::unique_ptr<nn::Unit>> units;
  units.push_back(std::make_unique<Block>());
  units.push_back(std::make_unique<Block>());
  CHECK(nn::parameters(*units[0]).size() == 6);
  const auto all = nn::parameters(units);
  REQUIRE(all.size() == 12);
  CHECK(all[1]->name == "up.weight");
  CHECK(nn::parameters(std::vector<nn::Unit*>{units[0].get(), units[0].get()}).size() == 6);
}

namespace {

// softmax(q k' 0.7) v, where a position sees `window` ones.
at::Tensor plain_window(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, std::int64_t window) {
  const auto groups = q.size(1) / k.size(1);
  const auto keys = k.repeat_interleave(groups, 1), values = v.repeat_interleave(groups, 1);
  const auto ones = at::ones({q.size(2), q.size(2)}, at::kBool);
  const auto mask = ones.tril().logical_and(ones.triu(1 - window));
  const auto scores = (at::matmul(q, keys.transpose(-2, -1)) * 0.7).masked_fill(mask.logical_not(), -1e300);
  return at::matmul(at::softmax(scores, -1), values);
}

}  // namespace

// A window of half the row or less is computed a window's worth of queries at a time.
TEST_CASE("a window of attention hides what is further back, values and gradients, for any length") {
  nn::Layer root("root");
  const nn::Dropout none(root, "attention", 0);
  nn::Batch batch;
  batch.positions = at::arange(7, at::kLong).unsqueeze(0).expand({2, 7});
  for (const std::int64_t window : {1, 2, 3, 4, 6, 7, 9}) {
    INFO("window " << window);
    const auto leaves = [] {
      return std::vector<at::Tensor>{numbers({2, 4, 7, 4}, 0.1).set_requires_grad(true),
                                     numbers({2, 2, 7, 4}, 0.5).set_requires_grad(true),
                                     numbers({2, 2, 7, 4}, 0.9).set_requires_grad(true)};
    };
    const auto mine = leaves(), plain = leaves();
    const auto got = nn::causal_attention(mine[0], mine[1], mine[2], none, batch, nullptr, 0, {0.7, window});
    const auto expected = plain_window(plain[0], plain[1], plain[2], window);
    CHECK(testing::difference(got, expected) < 1e-13);
    const auto towards = numbers({2, 4, 7, 4}, 0.3);
    got.backward(towards);
    expected.backward(towards);
    for (std::size_t i = 0; i < 3; ++i) CHECK(testing::difference(mine[i].grad(), plain[i].grad()) < 1e-13);
  }
}

TEST_CASE("a window of attention holds for tokens that come one by one") {
  nn::Layer root("root");
  const nn::Dropout none(root, "attention", 0);
  const auto q = numbers({1, 2, 7, 4}, 0.1), k = numbers({1, 2, 7, 4}, 0.5), v = numbers({1, 2, 7, 4}, 0.9);
  nn::Batch batch;
  const nn::AttentionScores scores{0.7, 3};
  const auto expected = plain_window(q, k, v, 3);
  nn::KVCache cache(7);
  const auto part = [](const at::Tensor& x, std::int64_t begin, std::int64_t count) {
    return x.narrow(2, begin, count);
  };
  batch.positions = at::arange(5, at::kLong).unsqueeze(0);
  nn::causal_attention(part(q, 0, 5), part(k, 0, 5), part(v, 0, 5), none, batch, &cache, 0, scores);
  cache.set_filled();
  for (std::int64_t t = 5; t < 7; ++t) {
    batch.positions = at::full({1, 1}, t, at::kLong);
    const auto one = nn::causal_attention(part(q, t, 1), part(k, t, 1), part(v, t, 1), none, batch, &cache, 0, scores);
    CHECK(testing::difference(one, part(expected, t, 1)) < 1e-13);
  }
}
