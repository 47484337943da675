// config.json as a layer of a model's options, and config.json written from the table that reads it.
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan_catch.h>

#include "checkpoint/faults.h"
#include "checkpoint/scratch.h"
#include "hf/config_file.h"
#include "hf/config_json.h"
#include "support/errors.h"
#include "support/folder.h"

namespace config_file_test {

using namespace capstan;
using json = capstan::Json;

namespace {

struct Sizes {
  std::string model_type = "tiny";
  std::int64_t width = 8;
  std::optional<std::int64_t> inner;
  std::int64_t seq_length = 64;
  double theta = 1e4;
  double factor = 2;
  bool fast = false;
  static void describe(config::OptionTable<Sizes>& t) {
    t.add("model_type", &Sizes::model_type).doc("");
    t.add("width", &Sizes::width).spelling("n_embd").spelling("hidden_size").doc("");
    t.add("inner", &Sizes::inner).spelling("n_inner").doc("");
    t.add("seq_length", &Sizes::seq_length).spelling("max_position_embeddings").doc("");
    t.add("rope_theta", &Sizes::theta).spelling("rope_parameters.rope_theta").doc("");
    t.add("factor", &Sizes::factor).spelling("rope_scaling.factor").spelling("rope_parameters.factor").doc("");
    t.add("fast", &Sizes::fast).doc("");
  }
};

config::Options<Sizes> options(std::vector<config::Entry> entries) {
  Diagnostics diagnostics;
  config::Options<Sizes> out({"model", {}, std::move(entries)}, diagnostics);
  diagnostics.throw_if_any();
  return out;
}

// A plugin with these options, and no tables of keys.
template <class O>
plugin::Registration plugin_of() {
  plugin::Registration registration;
  registration.schema = config::Options<O>::schema();
  return registration;
}

layout::FileMap tiny() {
  layout::FileMap map;
  map.architecture = "TinyForCausalLM";
  map.left_out = {"fast"};
  map.more = {{"dropout", "0.5"}};
  return map;
}

}  // namespace

TEST_CASE("without an original each option stands under its first spelling, and ids come from the tokenizer") {
  const auto made = options({{"width", std::int64_t{16}, {}}});
  const auto map = tiny();
  const auto written = json::parse(hf::config_json({made.resolved(), map, "", {1, {2, 5}, -1}, "bfloat16"}));
  CHECK(written == json{{"architectures", {"TinyForCausalLM"}},
                        {"model_type", "tiny"},
                        {"n_embd", 16},
                        {"n_inner", nullptr},
                        {"max_position_embeddings", 64},
                        {"rope_theta", 1e4},
                        {"rope_scaling", {{"factor", 2.0}}},
                        {"dropout", 0.5},
                        {"bos_token_id", 1},
                        {"eos_token_id", {2, 5}},
                        {"pad_token_id", nullptr},
                        {"torch_dtype", "bfloat16"}});
  const auto one_end = json::parse(hf::config_json({made.resolved(), map, "", {-1, {2}, 3}, "float32"}));
  CHECK(one_end.at("eos_token_id") == 2);
  CHECK(one_end.at("pad_token_id") == 3);
}

TEST_CASE("an original keeps its spellings and all else that it says") {
  const auto map = tiny();
  const std::string original = R"({"architectures": ["Tiny"], "hidden_size": 8, "n_inner": null, "eos_token_id": 7,
      "max_position_embeddings": 4096, "rope_parameters": {"rope_theta": 10000, "factor": 2.0}, "use_cache": true,
      "dtype": "float16"})";
  const auto made = options({{"width", std::int64_t{16}, {}}, {"factor", 3.0, {}}});
  const auto written = json::parse(hf::config_json({made.resolved(), map, original, {1, {2}, 3}, "float32"}));
  CHECK(written == json{{"architectures", {"TinyForCausalLM"}},
                        {"model_type", "tiny"},
                        {"hidden_size", 16},
                        {"n_inner", nullptr},
                        {"eos_token_id", 7},
                        {"max_position_embeddings", 4096},  // a run's sequences may be shorter
                        {"rope_parameters", {{"rope_theta", 10000}, {"factor", 3.0}}},
                        {"use_cache", true},
                        {"dropout", 0.5},
                        {"dtype", "float32"}});
}

TEST_CASE("what is written is read back as the same options") {
  const auto map = tiny();
  const auto made = options({{"width", std::int64_t{16}, {}},
                             {"inner", std::int64_t{3}, {}},
                             {"seq_length", std::int64_t{5}, {}},
                             {"rope_theta", 1.25, {}},
                             {"factor", 7.5, {}}});
  const Scratch scratch;
  write_file(scratch / "config.json", hf::config_json({made.resolved(), map, "", {}, "float32"}));
  const auto section =
      hf::with_model_file({"model", {}, {}}, {scratch.path().string(), ""}, plugin_of<Sizes>()).section;
  Diagnostics diagnostics;
  const config::Options<Sizes> read(section, diagnostics);
  CHECK(diagnostics.empty());
  CHECK(read->width == 16);
  CHECK(read->inner == 3);
  CHECK(read->seq_length == 5);
  CHECK(read->theta == 1.25);
  CHECK(read->factor == 7.5);
}

TEST_CASE("a model without an architecture has no config.json") {
  const auto made = options({});
  const layout::FileMap none;
  CHECK(fault_of([&] {
          hf::config_json({made.resolved(), none, "", {}, "float32"});
        }) == "this model has no Hugging Face architecture");
}

namespace {

struct Lists {
  std::vector<std::int64_t> blocks;
  std::vector<std::string> kinds{"plain"};
  static void describe(config::OptionTable<Lists>& t) {
    t.add("blocks", &Lists::blocks).spelling("dense_blocks").doc("");
    t.add("kinds", &Lists::kinds).doc("");
  }
};

}  // namespace

TEST_CASE("lists of a config.json are read, empty ones too, and a list of something else is a fault") {
  const Scratch scratch;
  const auto read = [&](const std::string& text, Diagnostics& diagnostics) {
    write_file(scratch / "config.json", text);
    const auto section =
        hf::with_model_file({"model", {}, {}}, {scratch.path().string(), ""}, plugin_of<Lists>()).section;
    return config::Options<Lists>(section, diagnostics);
  };
  Diagnostics fine, bad;
  const auto made = read(R"({"dense_blocks": [2, 3], "kinds": []})", fine);
  CHECK(fine.empty());
  CHECK(made->blocks == std::vector<std::int64_t>{2, 3});
  CHECK(made->kinds.empty());
  read(R"({"dense_blocks": [2, "three"]})", bad);
  REQUIRE(bad.size() == 1);
  CHECK_THAT(bad.list()[0].text(), Contains("model.blocks") && Contains("list of integers"));
}

namespace {

struct Worded {
  std::string act = "silu";
  static void describe(config::OptionTable<Worded>& t) {
    t.add("act", &Worded::act).choices({"silu"}).spelling("hidden_act").doc("");
  }
};

}  // namespace

TEST_CASE("a word of a config.json that is not supported is not answered with one like it") {
  const Scratch scratch;
  write_file(scratch / "config.json", R"({"hidden_act": "silu2"})");
  const auto section =
      hf::with_model_file({"model", {}, {}}, {scratch.path().string(), "a.toml:5"}, plugin_of<Worded>()).section;
  Diagnostics diagnostics;
  const config::Options<Worded> options(section, diagnostics);
  REQUIRE(diagnostics.size() == 1);
  CHECK(
      diagnostics.list()[0].text() ==
      (scratch / "config.json").string() +
          ": model.act is \"silu2\", but must be one of \"silu\"\n    fix: such models are not supported; model.act in "
          "the configuration wins over the file");
}

// config.json files that describe no model, or another than they seem to.
namespace {

struct Decoder {
  std::int64_t vocab_size = 258;
  std::int64_t num_heads = 4;
  std::optional<std::int64_t> ff_dim;
  double theta = 1e4;
  double factor = 1;
  static void describe(config::OptionTable<Decoder>& t) {
    t.add("vocab_size", &Decoder::vocab_size).doc("");
    t.add("num_heads", &Decoder::num_heads).spelling("n_head").doc("");
    t.add("ff_dim", &Decoder::ff_dim).spelling("n_inner").doc("");
    t.add("rope_theta", &Decoder::theta).spelling("rope_parameters.rope_theta").doc("");
    t.add("rope_factor", &Decoder::factor).spelling("rope_scaling.factor").spelling("rope_parameters.factor").doc("");
  }
};

// What is said of a config.json with this text; "" and the heads that it gives when nothing is.
std::string said(const std::string& text, std::vector<config::Entry> own = {}) {
  const test::Folder folder;
  folder.write("config.json", text);
  Diagnostics faults;
  auto error = test::error_of([&] {
    const auto section =
        hf::with_model_file({"model", {}, std::move(own)}, {folder.path().string(), "a.toml:3"}, plugin_of<Decoder>())
            .section;
    config::Options<Decoder> options(section, faults);
    faults.throw_if_any();
  });
  return error;
}

}  // namespace

TEST_CASE("a config.json says all sizes, or the configuration does") {
  CHECK(said(R"({"vocab_size": 10, "n_head": 2})").empty());
  CHECK_THAT(said(R"({"vocab_size": 10})"),
             Contains("config.json: it does not say how large the model is: num_heads or n_head is missing") &&
                 Contains("set model.num_heads"));
  CHECK_THAT(said(R"({"vocab_size": 10, "n_head": null})"), Contains("num_heads or n_head is missing"));
  CHECK(said(R"({"vocab_size": 10})", {{"num_heads", std::int64_t{2}, {}}}).empty());
  CHECK_THAT(said(R"({"vocab_size": 10, "n_head": []})"), Contains("model.num_heads is \"[]\""));
  CHECK_THAT(said(R"({"vocab_size": 10, "n_head": {"a": 1}})"), Contains("must be an integer"));
}

TEST_CASE("what is no object describes no model, and no library reads it") {
  for (const char* text : {"[]", "null", "3", "\"x\""}) {
    INFO(text);
    CHECK_THAT(said(text), Contains("config.json: it is ") && Contains(", not an object of a model's options"));
  }
  for (const char* text : {"", "{", "{\"n_head\": 1e999}", "{\"a\": \"\xff\"}"}) {
    INFO(text);
    CHECK_THAT(said(text), Contains("it is not JSON: ") && Contains("line 1, column") && !Contains("exception") &&
                               !Contains("syntax error"));
  }
}

TEST_CASE("rotary tables with unknown keys are refused, with the nearest name") {
  const auto with = [](const std::string& rope) { return R"({"vocab_size": 10, "n_head": 2, )" + rope + "}"; };
  CHECK(said(with(R"("rope_parameters": {"rope_theta": 5e5, "factor": 2.0, "partial_rotary_factor": 1.0})")).empty());
  CHECK(said(with(R"("rope_parameters": null, "rope_scaling": {"factor": 2.0})")).empty());
  CHECK_THAT(said(with(R"("rope_parameters": "x")")), Contains("rope_parameters is \"x\", not an object"));
  CHECK_THAT(said(with(R"("rope_parameters": {"rope_teta": 5e5})")),
             Contains("rope_parameters.rope_teta = 500000.0 is a key that Capstan does not know") &&
                 Contains("did you mean 'rope_parameters.rope_theta'?"));
  CHECK_THAT(said(with(R"("rope_scaling": {"partial_rotary_factor": 0.5})")),
             Contains("partial_rotary_factor = 0.5 is not supported"));
}

}  // namespace config_file_test
