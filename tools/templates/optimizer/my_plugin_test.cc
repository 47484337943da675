#include "my_plugin.h"

#include <ATen/ATen.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <cmath>

using namespace my_plugin_plugin;

namespace {

MyPlugin make(double momentum) {
  capstan::config::Section section{"optimizer", {}, {}};
  section.entries.push_back({"momentum", momentum, {capstan::config::Origin::Layer::file, "a.toml", 7}});
  capstan::Diagnostics diagnostics;
  MyPlugin plugin{{section, diagnostics}};
  diagnostics.throw_if_any();
  return plugin;
}

/// One parameter with a learning rate of 1/2, which is exact.
std::vector<capstan::optimizer::Slice> slices(double parameter) {
  std::vector<capstan::optimizer::Slice> all(1);
  all[0].lr = 0.5;
  all[0].master = at::full({1}, parameter, at::kDouble);
  all[0].state = {at::zeros({1}, at::kDouble)};
  return all;
}

void step(MyPlugin& plugin, std::vector<capstan::optimizer::Slice>& all, double gradient, double scale = 1,
          bool skip = false) {
  all[0].grad = at::full({1}, gradient, at::kDouble);
  plugin.apply(
      all, {at::ones({}, at::kDouble), at::full({}, scale, at::kFloat), at::full({}, skip ? 1.0 : 0.0, at::kFloat)});
}

}  // namespace

TEST_CASE("it does what every optimizer promises") {
  CHECK(capstan::testing::optimizer_breaches([] { return std::make_shared<MyPlugin>(make(0.9)); }) == "");
}

TEST_CASE("a step follows the gradient and what is left of the steps before") {
  auto plugin = make(0.5);
  auto all = slices(8);
  step(plugin, all, 4, 2);  // gradients are divided by the scale
  CHECK(all[0].master.item<double>() == 7);
  step(plugin, all, 1);
  CHECK(all[0].master.item<double>() == 6);
  all[0].weight_decay = 0.5;
  step(plugin, all, -1);
  CHECK(all[0].master.item<double>() == 4.5);
}

TEST_CASE("a step that is skipped changes nothing") {
  auto plugin = make(0.5);
  auto all = slices(8);
  step(plugin, all, 4);
  step(plugin, all, std::nan(""), std::nan(""), true);
  CHECK(all[0].master.item<double>() == 6);
  CHECK(all[0].state[0].item<double>() == 4);
}

TEST_CASE("ranks that share the parameters, or keep them in host memory, learn what one rank learns") {
  const auto run = [](int world, const std::string& tables) {
    return capstan::testing::train({.world = world,
                                    .config = "[optimizer]\nplugin = \"my_plugin\"\nlr = 0.05\n" + tables,
                                    .types = {capstan::testing::linked(*capstan_plugin())}});
  };
  const auto alone = run(1, "");
  CHECK(alone.losses.back() < alone.losses.front());
  CHECK(capstan::testing::differences(run(3, "[strategy.fsdp]\n"), alone, 1e-10) == "");
  CHECK(capstan::testing::differences(run(2, "[strategy.zero]\nstage = 2\noffload_optimizer = \"cpu\"\n"), alone,
                                      1e-10) == "");
}

// An option that nothing asks for passes every test of layouts: one rank ignores it as several do.
TEST_CASE("each option changes what is learned") {
  const capstan::testing::Setting setting{.config = "[optimizer]\nplugin = \"my_plugin\"\nlr = 0.05\n",
                                          .steps = 3,
                                          .types = {capstan::testing::linked(*capstan_plugin())}};
  CHECK(capstan::testing::without_effect(setting, {"optimizer.momentum=0.5"}) == "");
}

TEST_CASE("more momentum than all of it is refused") { CHECK_THROWS_WITH(make(1.5), Contains("a.toml:7")); }
