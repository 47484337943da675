// Text models inside of other models, and families that no plugin knows.
#include "hf/wrapper.h"

#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan_catch.h>

#include "checkpoint/scratch.h"
#include "hf/config_file.h"
#include "hf/config_json.h"
#include "hf/family.h"
#include "support/errors.h"

namespace wrapper_test {

using namespace capstan;

namespace {

struct Options {
  std::string model_type = "tiny";
  std::int64_t width = 8;
  bool tied = false;
  static void describe(config::OptionTable<Options>& t) {
    t.add("model_type", &Options::model_type).choices({"tiny"}).doc("");
    t.add("width", &Options::width).spelling("hidden_size").doc("");
    t.add("tie_word_embeddings", &Options::tied).doc("");
  }
};

// A plugin that reads "tiny" by itself and inside of "around".
plugin::Registration tiny() {
  using Use = config::FileKey::Use;
  plugin::Registration registration;
  registration.kind = "model";
  registration.name = "tinies";
  registration.schema = config::Options<Options>::schema();
  registration.file_defaults = {{"around", {{"tie_word_embeddings", true}}},
                                {"tiny", {{"tie_word_embeddings", false}}}};
  registration.file_keys = {
      {"config.json", "", {{"model_type"}, {"dtype", Use::neutral}}, config::FileKeys::Unknown::named},
      {"config.json of around",
       "",
       {{"text_config"},
        {"tie_word_embeddings"},
        {"architectures", Use::only, "only this class's text model is read", {R"(["AroundForAll"])"}},
        {"vision_config", Use::neutral}},
       config::FileKeys::Unknown::named}};
  return registration;
}

// The option of a wrapper whose files have a head or not.
struct Read {
  config::Options<Options> options;
  std::string note;
};
Read read(const std::string& json, bool has_head, const std::vector<config::Entry>& entries = {}) {
  const Scratch scratch;
  write_file(scratch / "config.json", json);
  write_file(scratch / "model.safetensors.index.json",
             has_head ? R"({"weight_map": {"language_model.lm_head.weight": "a"}})" : R"({"weight_map": {"x": "a"}})");
  auto made = hf::with_model_file({"model", {}, entries}, {scratch.path().string(), ""}, tiny());
  Diagnostics faults;
  config::Options<Options> options(made.section, faults);
  faults.throw_if_any();
  return {std::move(options), made.note};
}

const std::string begin = R"({"model_type": "around", "architectures": ["AroundForAll"], "vision_config": {"a": 1}, )";

}  // namespace

TEST_CASE("options of a text model inside of another are those of its table, and what is beside it is judged") {
  const auto made = read(begin + R"("text_config": {"model_type": "tiny", "hidden_size": 16}})", true);
  CHECK(made.options->width == 16);
  CHECK_THAT(made.options.resolved()[1].origin.text(), Contains("config.json: text_config"));
  CHECK_THAT(read(begin + R"("fusion": 2, "text_config": {"model_type": "tiny", "swirl": 3}})", true).note,
             Contains("does not know and passes over: swirl, fusion") && !Contains("model_type"));
  CHECK_THAT(test::error_of([] {
               read(R"({"model_type": "around", "architectures": ["AroundForOne"], "text_config": {}})", true);
             }),
             Contains("architectures = [\"AroundForOne\"] is not supported\n    fix: only this class's text model"));
}

TEST_CASE("where a wrapper's flag and its text model's differ, the files say whether the head is the table") {
  const auto tied = [](const std::string& outer, const std::string& inner, bool has_head) {
    return read(begin + outer + R"("text_config": {"model_type": "tiny")" + inner + "}}", has_head);
  };
  const std::string yes = R"("tie_word_embeddings": true, )", no = R"("tie_word_embeddings": false, )";
  const std::string inner_yes = R"(, "tie_word_embeddings": true)", inner_no = R"(, "tie_word_embeddings": false)";
  for (const bool has_head : {false, true}) {
    CHECK(tied(yes, inner_yes, has_head).options->tied);
    CHECK_FALSE(tied(no, inner_no, has_head).options->tied);
    CHECK_FALSE(tied(no, "", has_head).options->tied);
    CHECK(tied(yes, inner_yes, has_head).note.empty());
    CHECK(tied("", inner_no, has_head).options->tied == !has_head);  // left out, the outer flag is true
    CHECK(tied("", "", has_head).options->tied == !has_head);
    CHECK(tied(no, inner_yes, has_head).options->tied == !has_head);
  }
  CHECK_THAT(tied(yes, inner_no, true).note, Contains("tie_word_embeddings is true for the whole and false in "
                                                      "text_config; the files have a head, which is trained"));
  CHECK_THAT(tied(yes, "", false).note, Contains("the files have no head, so it is the embedding's table"));
  const std::vector<config::Entry> own{{"tie_word_embeddings", false, {config::Origin::Layer::command_line, "", 0}}};
  CHECK_FALSE(read(begin + yes + R"("text_config": {"model_type": "tiny"}})", false, own).options->tied);
}

TEST_CASE("a wrapper's config.json is written as it was, but for what the configuration changes") {
  const auto text =
      begin + "\n" + R"("text_config": {"model_type": "tiny", "hidden_size": 16},   "dtype": "bfloat16"})";
  auto map = hf::in_wrapper({});
  map.architecture = "TinyForCausalLM";
  const auto plain = read(text, true);
  CHECK(hf::config_json({plain.options.resolved(), map, text, {}, "bfloat16"}) == text);
  auto quantised = Json::parse(text);
  quantised["quantization_config"] = Json{{"quant_method", "fp8"}};
  const auto decoded = Json::parse(hf::config_json({plain.options.resolved(), map, quantised.dump(), {}, "bfloat16"}));
  CHECK(decoded == Json::parse(text));
  const auto changed = read(text, true, {{"width", std::int64_t{32}, {config::Origin::Layer::command_line, "", 0}}});
  auto expected = Json::parse(text);
  expected["text_config"]["hidden_size"] = 32;
  expected["dtype"] = "float32";
  CHECK(Json::parse(hf::config_json({changed.options.resolved(), map, text, {}, "float32"})) == expected);
  map.left_out = {"width"};  // it is not added, but is not wrong where the file has it
  CHECK(Json::parse(hf::config_json({changed.options.resolved(), map, text, {}, "float32"})) == expected);
  expected["text_config"].erase("hidden_size");
  const auto without = begin + R"("text_config": {"model_type": "tiny"}, "dtype": "bfloat16"})";
  CHECK(Json::parse(hf::config_json({changed.options.resolved(), map, without, {}, "float32"})) == expected);
}

TEST_CASE("a wrapper that no plugin names is refused, and so is a family that none knows, with the nearest one") {
  const Scratch scratch;
  plugin::Host host;
  const auto fault = [&](const std::string& json) {
    write_file(scratch / "config.json", json);
    return test::error_of([&] { (void)hf::plugin_of_folder(scratch.path().string(), host); });
  };
  const auto where = (scratch / "config.json").string() + ": ";
  CHECK_THAT(fault(R"({"model_type": "llava_next", "text_config": {"model_type": "bloom"}})"),
             Contains(where + "it is a model of type 'llava_next' around a text model of type 'bloom', and no plugin "
                              "knows where such files have that\n    fix: known are "));
  const auto text = fault(R"({"model_type": "blossom", "vocab_size": 99, "hidden_size": 32, "n_layer": 2, "n_head": 4,
      "layer_norm_epsilon": 1e-5, "apply_residual_connection_post_layernorm": false, "petals": 5,
      "slow_but_exact": false, "is_encoder_decoder": true})");
  CHECK_THAT(text, Contains(where + "no model plugin computes models of type 'blossom'. The nearest known type is "
                                    "'bloom': these differ from such a model: ") &&
                       Contains("is_encoder_decoder = true is not supported") &&
                       Contains("set model.plugin = \"bloom\" and model.model_type = \"bloom\""));
}

}  // namespace wrapper_test
