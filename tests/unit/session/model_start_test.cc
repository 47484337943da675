// Presets and config.json as layers of a model's options.
#include <capstan/base/files.h>
#include <capstan_catch.h>

#include "assembly/model_family.h"
#include "assembly/model_file.h"
#include "checkpoint/scratch.h"

using namespace capstan;

namespace {

struct Family {
  std::string model_type = "tiny", act = "silu";
  static void describe(config::OptionTable<Family>& t) {
    t.add("model_type", &Family::model_type).choices({"tiny", "small"}).doc("");
    t.add("act", &Family::act).choices({"silu"}).spelling("hidden_act").doc("");
  }
};

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
  section = assembly::with_model_file(section, {scratch.path().string(), "a.toml:5"}, schema);
  section = assembly::with_preset(section, {"small", "a.toml:6"}, presets, "tiny");
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
      assembly::with_preset({}, {name, "a.toml:6"}, known, "tiny");
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

TEST_CASE("a config.json of another family, or of quantized weights, is refused by its name") {
  const Scratch scratch;
  plugin::Host host;
  plugin::Registration tiny;
  tiny.kind = "model";
  tiny.name = "tinies";
  tiny.schema = config::Options<Family>::schema();
  std::size_t forms = 0;
  const auto where = (scratch / "config.json").string() + ": ";
  const auto fault = [&](const std::string& json, const config::Section& section = {}) -> std::string {
    write_file(scratch / "config.json", json);
    try {
      assembly::check_family(section, {scratch.path().string(), "a.toml:5"}, tiny, host);
      forms = assembly::forms_of_folder({scratch.path().string(), "a.toml:5"}, {}, host).size();
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  CHECK(fault(R"({"model_type": "small"})").empty());
  CHECK(fault("{}").empty());
  CHECK(fault(R"({"model_type": "tiny2"})") ==
        where +
            "it is a model of type 'tiny2', and plugin 'tinies' computes 'tiny', 'small'\n    fix: no plugin computes "
            "such models: take another one");
  CHECK_THAT(fault(R"({"model_type": "bloom"})"), Contains("fix: set model.plugin = \"bloom\""));
  const config::Section chosen{"model", {}, {{"model_type", std::string("tiny"), {}}}};
  CHECK(fault(R"({"model_type": "tiny2"})", chosen).empty());
  CHECK(fault(R"({"quantization_config": {"quant_method": "gptq"}})") ==
        where +
            "its weights are quantized (gptq), which is not supported\n    fix: take the model that it was quantized "
            "from, or one that was quantized by bitsandbytes (strategy.nf4)");
  CHECK(forms == 0);
  CHECK(fault(R"({"quantization_config": {"quant_method": "bitsandbytes"}})").empty());
  CHECK(forms == 1);
}

TEST_CASE("a word of a config.json that is not supported is not answered with one like it") {
  const Scratch scratch;
  write_file(scratch / "config.json", R"({"hidden_act": "silu2"})");
  const auto section = assembly::with_model_file({"model", {}, {}}, {scratch.path().string(), "a.toml:5"},
                                                 config::Options<Family>::schema());
  Diagnostics diagnostics;
  const config::Options<Family> options(section, diagnostics);
  REQUIRE(diagnostics.size() == 1);
  CHECK(
      diagnostics.list()[0].text() ==
      (scratch / "config.json").string() +
          ": model.act is \"silu2\", but must be one of \"silu\"\n    fix: such models are not supported; model.act in "
          "the configuration wins over the file");
}
