// What becomes of each key of a config.json: used, neutral, refused, unknown, missing, or said twice.
#include <capstan_catch.h>

#include <map>

#include "hf/config_file.h"
#include "hf/config_json.h"
#include "support/errors.h"
#include "support/folder.h"

namespace file_keys_test {

using namespace capstan;
using config::FileKey;
using config::FileKeys;

namespace {

struct Options {
  std::string model_type = "tiny";
  std::int64_t width = 8;
  std::int64_t length = 64;
  double theta = 1e6;
  std::string rope_type = "default";
  std::optional<double> factor;
  double low = 1;
  double high = 4;
  std::int64_t original = 8192;
  std::optional<std::int64_t> window;
  double epsilon = 1e-3;
  static void describe(config::OptionTable<Options>& t) {
    const auto rope = [](auto option, const std::string& key) {
      option.spelling("rope_scaling." + key).spelling("rope_parameters." + key).doc("");
    };
    t.add("model_type", &Options::model_type).choices({"tiny", "small"}).doc("");
    t.add("width", &Options::width).spelling("hidden_size").spelling("n_embd").doc("");
    t.add("seq_length", &Options::length).spelling("max_position_embeddings").doc("");
    t.add("rope_theta", &Options::theta).spelling("rope_parameters.rope_theta").doc("");
    auto type = t.add("rope_type", &Options::rope_type);
    rope(type, "rope_type");
    rope(type, "type");
    rope(t.add("rope_factor", &Options::factor), "factor");
    rope(t.add("rope_low", &Options::low), "low_freq_factor");
    rope(t.add("rope_high", &Options::high), "high_freq_factor");
    rope(t.add("rope_original", &Options::original), "original_max_position_embeddings");
    t.add("sliding_window", &Options::window).doc("");
    t.add("epsilon", &Options::epsilon).spelling("rms_norm_eps").doc("");
  }
};

plugin::Registration tiny() {
  using Use = FileKey::Use;
  plugin::Registration made;
  made.name = "tinies";
  made.schema = config::Options<Options>::schema();
  made.file_defaults = {{"tiny",
                         {{"rope_theta", 1e4},
                          {"epsilon", 1e-6},
                          {"sliding_window", std::int64_t{4096}},
                          {"seq_length", std::int64_t{2048}}}}};
  made.file_keys = {{"config.json",
                     "",
                     {{"use_cache", Use::neutral, "speed"},
                      {"is_encoder_decoder", Use::only, "take another model", {"false"}},
                      {"per_layer_config", Use::refused, "take another model"},
                      {"original_max_position_embeddings"}},
                     FileKeys::Unknown::named},
                    {"config.json of tiny", "", {{"width", Use::neutral, "Capstan's"}}, FileKeys::Unknown::named},
                    {"generation_config.json", "", {{"top_k", Use::neutral, "sampling"}}, FileKeys::Unknown::named}};
  return made;
}

struct Read {
  config::Options<Options> options;
  std::string note;
};

Read read(const std::string& text, const plugin::Registration& registration = tiny(),
          const std::string& generation = {}) {
  const test::Folder folder;
  folder.write("config.json", R"({"model_type": "tiny", )" + text + "}");
  if (!generation.empty()) folder.write("generation_config.json", generation);
  auto from = hf::with_model_file({"model", {}, {}}, {folder.path().string(), "a.toml:1"}, registration);
  Diagnostics faults;
  Read out{config::Options<Options>(from.section, faults), from.note};
  faults.throw_if_any();
  return out;
}

std::string fault(const std::string& text) {
  return test::error_of([&] { read(text); });
}

}  // namespace

TEST_CASE("null is as if the key were not there, but for an option that need not be set") {
  CHECK(read(R"("rope_theta": null, "rope_parameters": {"rope_theta": 500})").options->theta == 500);
  CHECK(read(R"("n_embd": null, "hidden_size": 16)").options->width == 16);
  CHECK(read(R"("hidden_size": null, "n_embd": 16)").options->width == 16);
  CHECK(read(R"("rope_theta": 7, "rope_parameters": null)").options->theta == 7);
  CHECK(read(R"("rope_theta": 7, "rope_scaling": {})").options->theta == 7);
  CHECK(read(R"("rms_norm_eps": null)").options->epsilon == 1e-6);
  CHECK(!read(R"("sliding_window": null)").options->window);
  CHECK(read(R"("per_layer_config": null)").note.empty());
}

TEST_CASE("a missing key is what transformers takes for the family, and is said to come from there") {
  const auto made = read(R"("hidden_size": 16)");
  CHECK(made.options->theta == 1e4);
  CHECK(made.options->epsilon == 1e-6);
  CHECK(made.options->window == 4096);
  CHECK_THAT(made.options.where(&Options::theta), Contains("config.json (left out: what transformers takes for tiny)"));
  auto none = tiny();
  none.file_defaults.clear();
  CHECK(read(R"("hidden_size": 16)", none).options->theta == 1e6);
}

TEST_CASE("longrope's factor is the ratio of the model's lengths, and a family may say the unscaled one") {
  const std::string lengths = R"("original_max_position_embeddings": 16, "max_position_embeddings": 40, )";
  const auto ratio = read(lengths + R"("rope_scaling": {"type": "longrope"})");
  CHECK(ratio.options->factor == 2.5);
  CHECK(ratio.options->original == 16);
  CHECK(read(lengths + R"("rope_parameters": {"rope_type": "longrope", "factor": 3})").options->factor == 3);
  auto family = tiny();
  family.file_defaults["tiny"].emplace_back("rope_original", std::int64_t{8});
  const std::string inside = R"("rope_scaling": {"type": "longrope", "original_max_position_embeddings": 4})";
  CHECK(read(inside, family).options->original == 4);
  for (auto& spec : family.schema) {
    if (spec.key == "rope_original") spec.spellings.emplace_back("original_max_position_embeddings");
  }
  CHECK_THAT(test::error_of([&] { read(inside, family); }),
             Contains("original_max_position_embeddings = 8 and rope_scaling.original_max_position_embeddings = 4"));
  const auto left_out = read(R"("rope_scaling": {"type": "longrope"}, "max_position_embeddings": 40)", family);
  CHECK(left_out.options->factor == 5);
  CHECK(left_out.options->original == 8);
}

TEST_CASE("two spellings that disagree are refused with both values; those that agree are one") {
  const std::map<std::string, std::string> rows{
      {R"("hidden_size": 16, "n_embd": 8)", "hidden_size = 16 and n_embd = 8 mean the same"},
      {R"("rope_theta": 7, "rope_parameters": {"rope_theta": 500})", "rope_theta = 7 and rope_parameters.rope_theta"},
      {R"("rope_scaling": {"rope_type": "linear", "type": "yarn", "factor": 2})", "disagree"},
      {R"("rope_scaling": {"rope_type": "linear", "factor": 2}, "rope_parameters": {"rope_type": "linear", "factor": 3})",
       "rope_parameters = {\"rope_type\":\"linear\",\"factor\":3} disagree"},
      // transformers takes the older table, and then no theta.
      {R"("rope_scaling": {"type": "linear", "factor": 2},
          "rope_parameters": {"rope_type": "linear", "factor": 2, "rope_theta": 5})",
       "disagree"},
      {R"("original_max_position_embeddings": 5, "max_position_embeddings": 40, "rope_scaling": {"rope_type": "yarn",
          "factor": 2, "original_max_position_embeddings": 6})",
       "original_max_position_embeddings = 5 and rope_scaling.original_max_position_embeddings = 6"}};
  for (const auto& [text, expected] : rows) {
    INFO(text);
    CHECK_THAT(fault(text), Contains(expected));
  }
  CHECK(read(R"("hidden_size": 16, "n_embd": 16)").options->width == 16);
  const auto both = R"("rope_theta": 5, "rope_scaling": {"type": "linear", "factor": 2.0},
                       "rope_parameters": {"rope_type": "linear", "factor": 2, "rope_theta": 5.0})";
  CHECK(read(both).options->factor == 2);
}

TEST_CASE("the length of the unscaled model that a rotary table leaves out is that of the file, else the family's") {
  const auto llama3 = [](const std::string& more, const std::string& around) {
    return read(around + R"("rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
                "high_freq_factor": 4)" +
                more + "}")
        .options->original;
  };
  CHECK(llama3("", R"("max_position_embeddings": 64, )") == 64);
  CHECK(llama3(R"(, "original_max_position_embeddings": 16)", R"("max_position_embeddings": 64, )") == 16);
  CHECK(llama3(R"(, "original_max_position_embeddings": null)", R"("max_position_embeddings": 64, )") == 64);
  CHECK(llama3("", R"("original_max_position_embeddings": 32, "max_position_embeddings": 64, )") == 32);
  CHECK(llama3("", "") == 2048);
  CHECK(read(R"("max_position_embeddings": 99, "rope_parameters": {"type": "yarn", "factor": 8})").options->original ==
        99);
  CHECK(read(R"("max_position_embeddings": 99, "rope_scaling": {"type": "linear", "factor": 8})").options->original ==
        8192);
  for (const char* key : {"low_freq_factor", "high_freq_factor"}) {
    const std::string other = key == std::string("low_freq_factor") ? "high_freq_factor" : "low_freq_factor";
    CHECK_THAT(fault(R"("rope_scaling": {"rope_type": "llama3", "factor": 8, ")" + other + "\": 2}"),
               Contains("rope_scaling is of type llama3, which requires " + std::string(key)));
  }
}

TEST_CASE("keys are neutral, limited to values, refused, or named once; the family's own table comes first") {
  CHECK(read(R"("hidden_size": 16, "use_cache": true, "is_encoder_decoder": false)").note.empty());
  CHECK_THAT(fault(R"("is_encoder_decoder": true)"),
             Contains("is_encoder_decoder = true is not supported\n    fix: take another model"));
  CHECK_THAT(fault(R"("per_layer_config": {"0": {}})"), Contains("per_layer_config = {\"0\":{}} is not supported"));
  const auto made = read(R"("width": 32, "hidden_size": 16, "logit_scale": 2, "x": "\u001b[2J")", tiny(),
                         R"({"top_k": 5, "top_z": 1})");
  CHECK(made.options->width == 16);  // "width" is no name of transformers'
  CHECK_THAT(made.note, Contains("config.json has keys that Capstan does not know and passes over: logit_scale, x, "
                                 "top_z (generation_config.json); `capstan reference --files`"));
  auto none = tiny();
  none.file_keys.clear();  // a plugin that says nothing of its files
  CHECK(read(R"("width": 32, "logit_scale": 2)", none).note.empty());
  CHECK(read(R"("width": 32)", none).options->width == 32);
}

TEST_CASE("what was read from two spellings, or from transformers 5's table alone, is written as a file that is read") {
  layout::FileMap map;
  map.architecture = "Tiny";
  const std::string original = R"({"model_type": "tiny", "rope_theta": 5, "hidden_size": 16, "n_embd": 16,
      "rope_parameters": {"rope_type": "yarn", "factor": 2, "rope_theta": 5}, "max_position_embeddings": 40})";
  const test::Folder folder;
  folder.write("config.json", original);
  config::Section section{"model", {}, {}};
  section.entries.push_back({"width", std::int64_t{32}, {config::Origin::Layer::command_line, "", 0}});
  Diagnostics faults;
  const config::Options<Options> changed(hf::with_model_file(section, {folder.path().string(), ""}, tiny()).section,
                                         faults);
  folder.write("config.json", hf::config_json({changed.resolved(), map, original, {}, "float32"}));
  const config::Options<Options> again(
      hf::with_model_file({"model", {}, {}}, {folder.path().string(), ""}, tiny()).section, faults);
  faults.throw_if_any();
  CHECK(again->width == 32);
  CHECK(again->original == 40);
  CHECK(again->theta == 5);
}

TEST_CASE("an adapter's folder names its base, and an adapter next to a model is not passed over") {
  const test::Folder folder;
  const auto said = [&](const hf::ModelFolder& at) { return test::error_of([&] { hf::refuse_adapter(at); }); };
  const auto path = folder.path().string();
  CHECK(said({path, "a.toml:2"}).empty());
  folder.write("adapter_config.json", R"({"base_model_name_or_path": "org/base"})");
  CHECK(said({path, "a.toml:2"}) == "a.toml:2: " + path +
                                        " is the folder of a PEFT adapter, not of a model\n    fix: name its base with "
                                        "model.path (it says \"org/base\"), and the adapter with "
                                        "strategy.lora.adapter = \"" +
                                        path + "\"");
  CHECK_THAT(test::error_of([&] {
               hf::with_model_file({"model", {}, {}}, {path, "a.toml:2"}, tiny());
             }),
             Contains("is the folder of a PEFT adapter"));
  folder.write("config.json", "{}");
  CHECK_THAT(said({path, "a.toml:2"}), Contains("has a PEFT adapter next to the model") &&
                                           Contains("set strategy.lora.adapter = \"" + path + "\""));
  CHECK(said({path, "a.toml:2", /*adapter_is_read=*/true}).empty());
  folder.write("adapter_config.json", "[");
  CHECK_THAT(said({path, ""}), Contains(path + ": " + path + " has a PEFT adapter"));
}

}  // namespace file_keys_test
