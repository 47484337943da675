// Rotary tables of a config.json where each kind of block has one.
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan_catch.h>

#include "hf/config_file.h"
#include "hf/config_json.h"
#include "support/errors.h"
#include "support/folder.h"

namespace rope_tables_test {

using namespace capstan;
using config::FileKey;
using config::FileKeys;

namespace {

struct Options {
  std::string model_type = "two";
  double theta = 1;
  std::string type = "default";
  std::optional<double> factor;
  std::int64_t original = 0;
  std::int64_t length = 64;
  static void describe(config::OptionTable<Options>& t) {
    const std::string full = "rope_parameters.full_attention.", sliding = "rope_parameters.sliding_attention.";
    t.add("model_type", &Options::model_type).doc("");
    t.add("rope_theta", &Options::theta).spelling(full + "rope_theta").spelling(sliding + "rope_theta").doc("");
    t.add("type", &Options::type).spelling("rope_scaling.rope_type").spelling(full + "rope_type").doc("");
    t.add("factor", &Options::factor).spelling("rope_scaling.factor").spelling(full + "factor").doc("");
    const std::string original = "original_max_position_embeddings";
    t.add("original", &Options::original).spelling("rope_scaling." + original).spelling(full + original).doc("");
    t.add("seq_length", &Options::length).spelling("max_position_embeddings").doc("");
  }
};

config::Options<Options> read(const std::string& text) {
  plugin::Registration two;
  two.schema = config::Options<Options>::schema();
  two.file_keys = {{"config.json",
                    "",
                    {{"rope_parameters.sliding_attention.rope_type", FileKey::Use::only, "not there", {"\"default\""}}},
                    FileKeys::Unknown::named}};
  const test::Folder folder;
  folder.write("config.json", text);
  auto from = hf::with_model_file({"model", {}, {}}, {folder.path().string(), "a.toml:1"}, two);
  Diagnostics faults;
  config::Options<Options> out(from.section, faults);
  faults.throw_if_any();
  return out;
}

std::string of(const std::string& full, const std::string& sliding, const std::string& more = {}) {
  return R"({"model_type": "two", "max_position_embeddings": 40, "rope_parameters": {"full_attention": )" + full +
         R"(, "sliding_attention": )" + sliding + "}" + more + "}";
}

std::string fault(const std::string& text) {
  return test::error_of([&] { read(text); });
}

const std::string plain = R"({"rope_type": "default", "rope_theta": 5})";
const std::string yarn = R"({"rope_type": "yarn", "rope_theta": 5, "factor": 2})";

}  // namespace

TEST_CASE("the options are those of blocks whose positions may be scaled, with the length that transformers takes") {
  const auto made = read(of(yarn, plain));
  CHECK(made->theta == 5);
  CHECK(made->type == "yarn");
  CHECK(made->factor == 2);
  CHECK(made->original == 40);
  CHECK(read(of(yarn, plain, R"(, "rope_scaling": {"rope_type": "yarn", "factor": 2}, "rope_theta": 5)"))->original ==
        40);
}

TEST_CASE("tables that disagree, scaled windows and one table for all blocks are refused") {
  CHECK_THAT(fault(of(yarn, R"({"rope_type": "default", "rope_theta": 6})")),
             Contains("rope_parameters.full_attention.rope_theta = 5 and rope_parameters.sliding_attention.rope_theta "
                      "= 6 mean the same, and disagree"));
  CHECK_THAT(fault(of(yarn, yarn)), Contains("rope_parameters.sliding_attention.rope_type = \"yarn\""));
  CHECK_THAT(fault(of(yarn, plain, R"(, "rope_scaling": {"rope_type": "yarn", "factor": 3})")),
             Contains("and rope_parameters.full_attention = ") && Contains("disagree"));
  CHECK_THAT(fault(R"({"model_type": "two", "rope_parameters": {"rope_theta": 5}})"),
             Contains("rope_parameters.rope_theta = 5 is a key that Capstan does not know"));
}

TEST_CASE("what a file's table lacks is written into that table") {
  const auto made = read(of(yarn, plain));
  layout::FileMap map;
  map.architecture = "Two";
  const auto written = Json::parse(hf::config_json({made.resolved(), map, of(yarn, plain), {}, "float32"}));
  const auto& tables = written.at("rope_parameters");
  CHECK(tables.at("full_attention") ==
        Json{{"rope_type", "yarn"}, {"rope_theta", 5}, {"factor", 2}, {"original_max_position_embeddings", 40}});
  CHECK(tables.at("sliding_attention") == Json::parse(plain));
  CHECK(tables.size() == 2);
}

}  // namespace rope_tables_test
