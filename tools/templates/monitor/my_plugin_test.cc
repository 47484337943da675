#include "my_plugin.h"

#include <capstan/testing.h>
#include <capstan_catch.h>

using namespace my_plugin_plugin;

namespace {

MyPlugin make(double keep) {
  capstan::config::Section section{"monitor.my_plugin", {}, {}};
  section.entries.push_back({"keep", keep, {capstan::config::Origin::Layer::file, "a.toml", 7}});
  capstan::Diagnostics diagnostics;
  MyPlugin plugin{{section, diagnostics}};
  diagnostics.throw_if_any();
  return plugin;
}

double after(MyPlugin& plugin, double loss) {
  capstan::monitor::StepEnded step;
  step.loss = loss;
  return plugin.step_ended(step).at(0).second;
}

}  // namespace

TEST_CASE("it does what every monitor promises") {
  CHECK(capstan::testing::monitor_breaches([] { return std::make_shared<MyPlugin>(make(0.9)); }) == "");
}

TEST_CASE("the mean starts with the first loss and moves towards the others") {
  auto plugin = make(0.5);  // halves are exact
  CHECK(after(plugin, 4) == 4);
  CHECK(after(plugin, 2) == 3);
  CHECK(after(plugin, 1) == 2);
  CHECK(plugin.mean() == 2);
}

TEST_CASE("a mean that never moves is refused") { CHECK_THROWS_WITH(make(1), Contains("a.toml:7")); }
