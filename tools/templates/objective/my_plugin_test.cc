#include "my_plugin.h"

#include <ATen/ATen.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

using namespace my_plugin_plugin;

namespace {

MyPlugin make(double power) {
  capstan::config::Section section{"objective", {}, {}};
  section.entries.push_back({"power", power, {capstan::config::Origin::Layer::file, "a.toml", 7}});
  capstan::Diagnostics diagnostics;
  MyPlugin plugin{{section, diagnostics}};
  diagnostics.throw_if_any();
  return plugin;
}

/// Two sequences of three positions: the first has two labels, the second one.
capstan::nn::Batch batch() {
  capstan::nn::Batch batch;
  batch.tokens = at::zeros({2, 3}, at::kLong);
  batch.labels = at::tensor({-100, 5, 6, 7, -100, -100}, at::kLong).view({2, 3});
  batch.sample_ids = at::arange(2, at::kLong);
  batch.samples.count = 2;
  return batch;
}

at::Tensor log_probabilities() { return at::tensor({0.0, -1.0, -3.0, -4.0, 0.0, 0.0}, at::kDouble); }

}  // namespace

TEST_CASE("it does what every objective promises") {
  const std::string config = "[objective]\nplugin = \"my_plugin\"\n";
  CHECK(capstan::testing::objective_breaches(
            make(1), {.config = config, .steps = 3, .types = {capstan::testing::linked(*capstan_plugin())}}) == "");
}

TEST_CASE("each sequence's mean counts alike, or each token does") {
  CHECK(make(1).sums({log_probabilities()}, batch()).terms[0].item<double>() == 2.0 + 4.0);
  CHECK(make(0).sums({log_probabilities()}, batch()).terms[0].item<double>() == 4.0 + 4.0);
}

// An option that nothing asks for passes every test of layouts: one rank ignores it as several do.
TEST_CASE("each option changes what is learned") {
  const capstan::testing::Setting setting{.config = "[objective]\nplugin = \"my_plugin\"\n",
                                          .steps = 2,
                                          .types = {capstan::testing::linked(*capstan_plugin())}};
  CHECK(capstan::testing::without_effect(setting, {"objective.power=0.5"}) == "");
}

TEST_CASE("a step's sequences are counted before its first forward") {
  capstan::data::HostBatch host;
  host.real_samples = 3;
  host.per_sample = 2;
  CHECK(make(1).counts(host) == std::vector<double>{6});
}

TEST_CASE("ranks that share samples or their tokens, or pack them into rows, learn what one rank learns") {
  const auto run = [](int world, const std::string& tables) {
    return capstan::testing::train({.world = world,
                                    .config = "[objective]\nplugin = \"my_plugin\"\n" + tables,
                                    .types = {capstan::testing::linked(*capstan_plugin())}});
  };
  const auto alone = run(1, "");
  CHECK(alone.losses.back() < alone.losses.front());
  CHECK(capstan::testing::differences(run(3, "[strategy.fsdp]\n"), alone, 1e-10) == "");
  CHECK(capstan::testing::differences(run(2, "[data]\npacking = true\n"), alone, 1e-10) == "");
  // The built-in model has no layer of attention, whose tokens ranks could share.
  const std::string gpt =
      "[model]\nplugin = \"gpt\"\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\nseq_length = 24\n";
  CHECK(capstan::testing::differences(run(2, gpt + "[strategy.context_parallel]\nsize = 2\n"), run(1, gpt), 1e-10) ==
        "");
}
