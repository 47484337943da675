#include "my_plugin.h"

#include <capstan/testing.h>
#include <capstan_catch.h>

using namespace my_plugin_plugin;

namespace {

/// A unit with one parameter.
class TestUnit : public capstan::nn::Unit {
 public:
  explicit TestUnit(const std::string& name) : capstan::nn::Unit(name) {
    add_record(name + ".weight", {2, 3}, capstan::layout::Init::ones(), true);
  }
  capstan::nn::Hidden forward(capstan::nn::Hidden hidden, const capstan::nn::Batch&, capstan::nn::KVCache*) override {
    return hidden;
  }
};

std::vector<std::unique_ptr<capstan::nn::Unit>> units() {
  std::vector<std::unique_ptr<capstan::nn::Unit>> all;
  for (const char* name : {"embedding", "blocks.0", "head"}) all.push_back(std::make_unique<TestUnit>(name));
  return all;
}

MyPlugin make(const std::vector<std::string>& units) {
  capstan::config::Section section{"strategy.my_plugin", {}, {}};
  section.entries.push_back({"units", units, {capstan::config::Origin::Layer::file, "a.toml", 7}});
  capstan::Diagnostics diagnostics;
  MyPlugin plugin{{section, diagnostics}};
  diagnostics.throw_if_any();
  return plugin;
}

}  // namespace

TEST_CASE("the named units are not trained, the others are") {
  auto all = units();
  make({"blocks.0"}).structure(all);
  CHECK(all[0]->trainable());
  CHECK_FALSE(all[1]->trainable());
  CHECK(all[2]->trainable());
}

TEST_CASE("a unit that the model does not have is refused, with the nearest name") {
  auto all = units();
  CHECK_THROWS_WITH(make({"block.0"}).structure(all),
                    Contains("a.toml:7") && Contains("no unit 'block.0'") && Contains("did you mean 'blocks.0'?"));
}

TEST_CASE("a model of which nothing would be trained is refused") {
  capstan::strategy::Facts facts;
  facts.model.num_layers = 1;
  capstan::Diagnostics diagnostics;
  make({"embedding", "blocks.0"}).check(facts, diagnostics);
  CHECK(diagnostics.empty());
  make({"embedding", "blocks.0", "head"}).check(facts, diagnostics);
  REQUIRE(diagnostics.size() == 1);
  CHECK_THAT(diagnostics.list()[0].text(),
             Contains("a.toml:7: strategy.my_plugin.units names 3 units of a model with 3"));
}

// An option that nothing asks for passes every test of layouts: one rank ignores it as several do.
TEST_CASE("each option changes what is learned") {
  const capstan::testing::Setting setting{.config = "[strategy.my_plugin]\nunits = []\n",
                                          .steps = 3,
                                          .types = {capstan::testing::linked(*capstan_plugin())}};
  CHECK(capstan::testing::without_effect(
            setting, {R"(strategy.my_plugin.units=["blocks.0"])", R"(strategy.my_plugin.units=["head"])"}) == "");
}
