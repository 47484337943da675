// config.json, written from the option table that reads it.
#include <capstan/base/files.h>
#include <capstan_catch.h>

#include <nlohmann/json.hpp>

#include "assembly/model_file.h"
#include "checkpoint/faults.h"
#include "checkpoint/scratch.h"

using namespace capstan;
using nlohmann::json;

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
  const auto written = json::parse(assembly::config_json({made.resolved(), map, "", {1, {2, 5}, -1}, "bfloat16"}));
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
  const auto one_end = json::parse(assembly::config_json({made.resolved(), map, "", {-1, {2}, 3}, "float32"}));
  CHECK(one_end.at("eos_token_id") == 2);
  CHECK(one_end.at("pad_token_id") == 3);
}

TEST_CASE("an original keeps its spellings and all else that it says") {
  const auto map = tiny();
  const std::string original = R"({"architectures": ["Tiny"], "hidden_size": 8, "n_inner": null, "eos_token_id": 7,
      "max_position_embeddings": 4096, "rope_parameters": {"rope_theta": 10000, "factor": 2.0}, "use_cache": true,
      "dtype": "float16"})";
  const auto made = options({{"width", std::int64_t{16}, {}}, {"factor", 3.0, {}}});
  const auto written = json::parse(assembly::config_json({made.resolved(), map, original, {1, {2}, 3}, "float32"}));
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
  write_file(scratch / "config.json", assembly::config_json({made.resolved(), map, "", {}, "float32"}));
  const auto section =
      assembly::with_model_file({"model", {}, {}}, {scratch.path().string(), ""}, config::Options<Sizes>::schema());
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
          assembly::config_json({made.resolved(), none, "", {}, "float32"});
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
        assembly::with_model_file({"model", {}, {}}, {scratch.path().string(), ""}, config::Options<Lists>::schema());
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
