// The tree that layers make, what they declare of their weights, and their ports.
#include <ATen/ATen.h>
#include <capstan/nn/model.h>
#include <capstan_catch.h>

#include <memory>
#include <string>
#include <vector>

#include "nn/block.h"

namespace layer_test {

using namespace capstan;
using capstan::testing::Block;
using capstan::testing::Gain;
using capstan::testing::weight;

namespace {

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

TEST_CASE("a port has one owner") {
  nn::Layer root("root");
  nn::Linear linear(root, "linear", nn::WeightSplit::none, weight("w", {2, 2}), nullptr);
  CHECK(!linear.after);
  linear.after.fill("tensor_parallel", [](const at::Tensor& y) { return y; });
  CHECK(static_cast<bool>(linear.after));
  try {
    linear.after.fill("lora", [](const at::Tensor& y) { return y; });
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) ==
          "port 'after' of layer root/linear is wanted by 'tensor_parallel' and 'lora'\n    fix: use one of them");
  }
}

TEST_CASE("a region runs its body, or what fills it") {
  nn::Layer root("root");
  nn::Region region(root, "attention");
  const auto body = [](const at::Tensor& x) { return x * 2; };
  const auto x = at::arange(3, at::kDouble);
  CHECK(region.name() == "attention");
  CHECK(at::equal(region(x, body), 2 * x));
  region.around.fill("recompute", [](const nn::Region::Body& inner, const at::Tensor& in) { return inner(in) + 1; });
  CHECK(at::equal(region(x, body), 2 * x + 1));
  CHECK_THROWS_WITH(
      region.around.fill("other", [](const nn::Region::Body& inner, const at::Tensor& in) { return inner(in); }),
      Contains("'recompute' and 'other'"));
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
    kind.spec.heads = {4, 2, 2};
    const nn::Attention attention(root, kind,
                                  {{weight("qkv", {16, 8}), nullptr},
                                   {weight("out", {8, 8}), nullptr},
                                   weight("q_norm", {size}),
                                   weight("k_norm", {size / 2 < 2 ? 2 : size / 2})});
    for (const auto* norm : attention.all<nn::RmsNorm>())
      CHECK(norm->use() == (size == 2 ? nn::Use::heads : nn::Use::split));
  }
}

}  // namespace layer_test
