// Presets and config.json as layers of a model's options.
#include <capstan/base/files.h>
#include <capstan_catch.h>

#include "checkpoint/scratch.h"
#include "setup/model_file.h"

using namespace capstan;
using Catch::Matchers::Contains;

namespace {

struct Sizes {
  std::int64_t width = 1, depth = 2, heads = 3, length = 4;
  static void describe(config::OptionTable<Sizes>& t) {
    t.add("width", &Sizes::width).spelling("n_embd").doc("");
    t.add("depth", &Sizes::depth).doc("");
    t.add("heads", &Sizes::heads).doc("");
    t.add("length", &Sizes::length).doc("");
  }
};

const config::Presets presets{
    {"small", {{"width", std::int64_t{10}}, {"depth", std::int64_t{20}}, {"heads", std::int64_t{30}}}}};

}  // namespace

TEST_CASE("default, preset, config.json, configuration: each layer wins over the one before") {
  const Scratch scratch;
  write_file(scratch.path() / "config.json", R"({"n_embd": 100, "depth": 200, "layers": {"x": 1}})");
  config::Section section{"model", {}, {}};
  section.entries.push_back({"width", std::int64_t{1000}, {config::Origin::Layer::file, "a.toml", 7}});
  const auto& schema = config::Options<Sizes>::schema();
  section = setup::with_model_file(section, {scratch.path().string(), "a.toml:5"}, schema);
  section = setup::with_preset(section, {"small", "a.toml:6"}, presets, "tiny");
  Diagnostics diagnostics;
  const config::Options<Sizes> sizes(section, diagnostics);
  diagnostics.throw_if_any();
  CHECK(sizes->width == 1000);
  CHECK(sizes.where(&Sizes::width) == "a.toml:7");
  CHECK(sizes->depth == 200);
  CHECK(sizes.where(&Sizes::depth) == (scratch.path() / "config.json").string());
  CHECK(sizes->heads == 30);
  CHECK(sizes.where(&Sizes::heads) == "preset");
  CHECK(sizes->length == 4);
}

TEST_CASE("an unknown preset is said with the nearest one") {
  const auto fault = [](const std::string& name, const config::Presets& known) -> std::string {
    try {
      setup::with_preset({}, {name, "a.toml:6"}, known, "tiny");
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  CHECK(fault("smal", presets) ==
        "a.toml:6: model.preset: plugin 'tiny' has no preset 'smal'\n    fix: did you mean 'small'?");
  CHECK(fault("small", {}) ==
        "a.toml:6: model.preset: plugin 'tiny' has no preset 'small'\n    fix: remove it: this plugin has none");
}
