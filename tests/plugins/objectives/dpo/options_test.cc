#include "plugins/objectives/dpo/options.h"

#include <capstan_catch.h>

#include "support/options.h"

namespace options_test {

using namespace capstan;
using dpo::DpoOptions;

namespace {

std::vector<Diagnostic> faults(const testing::OptionValues& values) {
  Diagnostics diagnostics;
  preference_of(testing::options_of<DpoOptions>("objective", values), diagnostics);
  return diagnostics.list();
}

dpo::Preference preference(const testing::OptionValues& values) {
  Diagnostics diagnostics;
  const auto found = preference_of(testing::options_of<DpoOptions>("objective", values), diagnostics);
  diagnostics.throw_if_any();
  return found;
}

config::Value text(const char* value) { return config::Value(std::string(value)); }

}  // namespace

TEST_CASE("a preference loss has its paper's defaults, and what is set") {
  CHECK(preference({}).loss == dpo::Loss::sigmoid);
  CHECK(preference({}).beta == 0.1);
  CHECK(preference({{"loss", text("simpo")}}).beta == 2);
  const auto set = preference({{"loss", text("simpo")}, {"beta", 1.5}, {"gamma", 0.3}, {"label_smoothing", 0.1}});
  CHECK(set.loss == dpo::Loss::simpo);
  CHECK(set.beta == 1.5);
  CHECK(set.gamma == 0.3);
  CHECK(set.label_smoothing == 0.1);
  CHECK(preference({{"loss", text("orpo")}, {"lambda", 0.2}}).lambda == 0.2);
  CHECK_FALSE(preference({{"loss", text("ipo")}, {"per_token", false}}).per_token);
}

TEST_CASE("an option that the loss does not use is refused with its line") {
  const std::vector<std::pair<const char*, std::vector<std::string>>> unused{
      {"sigmoid", {"gamma", "lambda", "per_token"}},
      {"ipo", {"label_smoothing", "gamma", "lambda"}},
      {"orpo", {"reference", "beta", "label_smoothing", "gamma", "per_token"}},
      {"simpo", {"reference", "lambda", "per_token"}}};
  for (const auto& [loss, names] : unused) {
    for (const auto& name : names) {
      INFO(loss << ", " << name);
      const auto value = name == "reference" ? text("data") : name == "per_token" ? config::Value(false) : 0.2;
      const auto found = faults({{"loss", text(loss)}, {name, value}});
      REQUIRE(found.size() == 1);
      CHECK(found[0].where == "a.toml:3");
      CHECK(found[0].what.find("objective." + name) != std::string::npos);
      CHECK_FALSE(found[0].fix.empty());
    }
  }
}

TEST_CASE("options that a run's own config.toml sets to their defaults are taken with any loss") {
  for (const auto* loss : {"sigmoid", "ipo", "orpo", "simpo"}) {
    INFO(loss);
    CHECK(faults({{"loss", text(loss)},
                  {"reference", text("base")},
                  {"label_smoothing", 0.0},
                  {"gamma", 0.5},
                  {"lambda", 0.1},
                  {"per_token", true}})
              .empty());
  }
}

TEST_CASE("numbers that no preference loss can have are refused") {
  CHECK_THROWS_AS(preference({{"beta", 0.0}}), Error);
  CHECK_THROWS_AS(preference({{"label_smoothing", 0.6}}), Error);
  CHECK_THROWS_AS(preference({{"loss", text("orpo")}, {"lambda", -0.1}}), Error);
}

}  // namespace options_test
