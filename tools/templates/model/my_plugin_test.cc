#include "my_plugin.h"

#include <ATen/ATen.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

using namespace my_plugin_plugin;

namespace {

capstan::config::Options<MyPluginOptions> options(std::int64_t hidden_size) {
  capstan::config::Section section{"model", {}, {}};
  const auto set = [&](const char* key, std::int64_t value) {
    section.entries.push_back({key, value, {capstan::config::Origin::Layer::file, "a.toml", 7}});
  };
  set("vocab_size", 11);
  set("hidden_size", hidden_size);
  set("num_heads", 2);
  set("seq_length", 5);
  capstan::Diagnostics diagnostics;
  capstan::config::Options<MyPluginOptions> made(section, diagnostics);
  diagnostics.throw_if_any();
  return made;
}

/// The units with leaves of various float64 values, bound as the host would bind them.
std::vector<std::unique_ptr<nn::Unit>> filled_units() {
  auto units = MyPlugin(options(6)).build();
  double phase = 0;
  for (const auto& unit : units) {
    for (const auto& weight : unit->weights()) {
      auto shape = weight->records().front().shape;
      shape.front() *= static_cast<std::int64_t>(weight->records().size());  // q, k and v are one
      auto leaf = at::arange(weight->numel(), at::kDouble).add(phase += 0.7).sin();
      weight->bind(leaf.view(shape).set_requires_grad(true));
    }
  }
  return units;
}

at::Tensor run(const std::vector<std::unique_ptr<nn::Unit>>& units, const nn::Batch& batch) {
  nn::Hidden hidden;
  for (const auto& unit : units) hidden = unit->forward(std::move(hidden), batch, nullptr);
  return hidden.states;
}

nn::Batch batch_of(const std::vector<std::int64_t>& tokens) {
  nn::Batch batch;
  batch.tokens = at::tensor(tokens).unsqueeze(0);
  batch.positions = at::arange(batch.tokens.size(1)).unsqueeze(0);
  return batch;
}

}  // namespace

TEST_CASE("what a position says depends on no later token") {
  const auto units = filled_units();
  auto one = batch_of({3, 1, 4, 1});
  auto other = batch_of({3, 1, 4, 9});
  for (const std::int64_t position : {0, 1, 2}) {
    one.last = other.last = at::tensor(std::vector<std::int64_t>{position});
    CHECK(at::equal(run(units, one), run(units, other)));
  }
  one.last = other.last = at::tensor(std::vector<std::int64_t>{3});
  CHECK_FALSE(at::allclose(run(units, one), run(units, other)));
}

TEST_CASE("the loss is the sum over targets, and every parameter has a gradient") {
  const auto units = filled_units();
  auto batch = batch_of({3, 1, 4, 1});
  batch.last = at::tensor(std::vector<std::int64_t>{2});
  const auto expected = -at::log_softmax(run(units, batch), -1).select(1, 9).sum();
  batch.labels = at::tensor(std::vector<std::int64_t>{-100, -100, 9, -100}).unsqueeze(0);
  const auto loss = run(units, batch);
  // Both are float64; the head computes its logsumexp in another order of operations.
  CHECK(at::allclose(loss, expected, 1e-12, 0));
  loss.backward();
  for (const auto& unit : units) {
    for (const auto& weight : unit->weights()) {
      INFO(weight->name());
      REQUIRE(weight->value().grad().defined());
      CHECK(weight->value().grad().abs().max().item<double>() > 0);
    }
  }
}

TEST_CASE("ranks that share the layers or the parameters learn what one rank learns") {
  const auto run = [](int world, const std::string& tables) {
    const std::string model = "[model]\nplugin = \"my_plugin\"\nhidden_size = 24\nnum_heads = 4\nseq_length = 20\n";
    return capstan::testing::train(
        {.world = world, .config = model + tables, .steps = 5, .types = {capstan::testing::linked(*capstan_plugin())}});
  };
  const auto alone = run(1, "");
  const std::string split = "[strategy.tensor_parallel]\nsize = 2\n";
  CHECK(capstan::testing::differences(run(2, split), alone, 1e-10) == "");
  CHECK(capstan::testing::differences(run(4, split + "[strategy.fsdp]\n"), alone, 1e-10) == "");
  CHECK(capstan::testing::differences(run(2, split + "sequence_parallel = true\n"), alone, 1e-10) == "");
  const std::string adapters = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"q\", \"linear_fc1\"]\n";
  CHECK(capstan::testing::differences(run(2, split + adapters), run(1, adapters), 1e-10) == "");
}

// An option, or a port that the model fills, which nothing asks for passes every test of layouts: one rank ignores it
// as several do.
TEST_CASE("each option changes what is learned") {
  const capstan::testing::Setting setting{
      .config = "[model]\nplugin = \"my_plugin\"\nhidden_size = 24\nnum_heads = 4\nnum_layers = 2\nseq_length = 20\n",
      .steps = 2,
      .types = {capstan::testing::linked(*capstan_plugin())}};
  CHECK(capstan::testing::without_effect(setting,
                                         {"model.hidden_size=28", "model.num_heads=2", "model.num_layers=3"}) == "");
}

TEST_CASE("heads that do not divide the width are refused") {
  capstan::Diagnostics diagnostics;
  MyPlugin(options(7)).check(diagnostics);
  REQUIRE(diagnostics.size() == 1);
  CHECK_THAT(diagnostics.list()[0].text(), Contains("a.toml:7: model.num_heads 2 does not divide model.hidden_size 7"));
}
