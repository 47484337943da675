#include "assembly/model_family.h"

#include <capstan/base/files.h>
#include <capstan_catch.h>

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

}  // namespace

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
