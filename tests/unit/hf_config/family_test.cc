#include "hf/family.h"

#include <capstan/base/files.h>
#include <capstan_catch.h>

#include "checkpoint/scratch.h"

namespace family_test {

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

TEST_CASE("a config.json of another family is refused by its name") {
  const Scratch scratch;
  plugin::Host host;
  plugin::Registration tiny;
  tiny.kind = "model";
  tiny.name = "tinies";
  tiny.schema = config::Options<Family>::schema();
  const auto where = (scratch / "config.json").string() + ": ";
  const auto fault = [&](const std::string& json, const config::Section& section = {}) -> std::string {
    write_file(scratch / "config.json", json);
    try {
      hf::check_family(section, {scratch.path().string(), "a.toml:5"}, tiny, host);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  CHECK(fault(R"({"model_type": "small"})").empty());
  CHECK(fault("{}").empty());
  CHECK_THAT(fault(R"({"model_type": "tiny2"})"),
             Contains(where + "no model plugin computes models of type 'tiny2'\n    fix: take another model"));
  CHECK_THAT(fault(R"({"model_type": "bloom"})"),
             Contains("it is a model of type 'bloom', and plugin 'tinies' computes 'tiny', 'small'\n    fix: set "
                      "model.plugin = \"bloom\""));
  const config::Section chosen{"model", {}, {{"model_type", std::string("tiny"), {}}}};
  CHECK(fault(R"({"model_type": "tiny2"})", chosen).empty());
}

}  // namespace family_test
