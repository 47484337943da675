#include <capstan_catch.h>
#include "nn/model_summary.h"

#include "support/model.h"

namespace gpt_neox_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

std::int64_t integer(std::int64_t value) { return value; }

const ModelOptions tiny{{"num_layers", integer(1)}, {"hidden_size", integer(12)}, {"num_heads", integer(3)},
                        {"ff_dim", integer(20)},    {"vocab_size", integer(31)},  {"rotary_pct", 0.5}};

}  // namespace

TEST_CASE("gpt_neox: presets have the published models' parameters") {
  const std::map<std::string, std::int64_t> published{
      {"pythia-70m", 70426624},    {"pythia-160m", 162322944},  {"pythia-410m", 405334016},
      {"pythia-1b", 1011781632},   {"pythia-1.4b", 1414647808}, {"pythia-2.8b", 2775208960},
      {"pythia-6.9b", 6857302016}, {"pythia-12b", 11846072320}, {"gpt-neox-20b", 20554567680}};
  CHECK(parameters_of_presets("gpt_neox") == published);
}

TEST_CASE("gpt_neox: records are Hugging Face's tensors; QKV is [head, 3, dim, hidden], a matrix in the file") {
  const auto model = make_model("gpt_neox", tiny);
  const auto records = records_of(*model);
  CHECK(records.at("gpt_neox.layers.0.attention.query_key_value.weight").shape == layout::Shape{3, 3, 4, 12});
  CHECK_FALSE(records.at("gpt_neox.layers.0.attention.query_key_value.bias").decay);
  const std::map<std::string, layout::Shape> expected{{"embed_in.weight", {31, 12}},
                                                      {"layers.0.input_layernorm.weight", {12}},
                                                      {"layers.0.input_layernorm.bias", {12}},
                                                      {"layers.0.attention.query_key_value.weight", {36, 12}},
                                                      {"layers.0.attention.query_key_value.bias", {36}},
                                                      {"layers.0.attention.dense.weight", {12, 12}},
                                                      {"layers.0.attention.dense.bias", {12}},
                                                      {"layers.0.post_attention_layernorm.weight", {12}},
                                                      {"layers.0.post_attention_layernorm.bias", {12}},
                                                      {"layers.0.mlp.dense_h_to_4h.weight", {20, 12}},
                                                      {"layers.0.mlp.dense_h_to_4h.bias", {20}},
                                                      {"layers.0.mlp.dense_4h_to_h.weight", {12, 20}},
                                                      {"layers.0.mlp.dense_4h_to_h.bias", {12}},
                                                      {"final_layer_norm.weight", {12}},
                                                      {"final_layer_norm.bias", {12}},
                                                      {"embed_out.weight", {31, 12}}};
  CHECK(files_of(*model) == expected);
  CHECK(model->file_map().unprefixed == std::vector<std::string>{"embed_out.weight"});
}

TEST_CASE("gpt_neox: a tied head is the embedding, and attention may have no biases") {
  auto options = tiny;
  options.insert(options.end(), {{"tie_word_embeddings", true}, {"attention_bias", false}});
  const auto model = make_model("gpt_neox", options);
  const auto files = files_of(*model);
  CHECK(files.count("embed_out.weight") == 0);
  CHECK(files.count("layers.0.attention.query_key_value.bias") == 0);
  CHECK(files.count("layers.0.attention.dense.bias") == 0);
  CHECK(files.count("layers.0.mlp.dense_4h_to_h.bias") == 1);
  CHECK(model->file_map().copies == std::map<std::string, std::string>{{"embed_out.weight", "embed_in.weight"}});
}

TEST_CASE("gpt_neox: faults are said with their line and a fix") {
  using Faults = std::vector<std::string>;
  CHECK(model_faults("gpt_neox", {{"hidden_size", integer(10)}, {"num_heads", integer(4)}, {"rotary_pct", 1.0}}) ==
        Faults{"a.toml:10: model.hidden_size 10 is not divisible by model.num_heads 4\n"
               "    fix: use hidden_size 12 or another number of heads"});
  CHECK(model_faults("gpt_neox", {{"rotary_pct", 0.1}}) ==
        Faults{"a.toml:10: model.partial_rotary_factor 0.1 turns 3 of a head's 32 numbers\n"
               "    fix: numbers turn in pairs: use a factor that makes an even number of them"});
  CHECK(model_faults("gpt_neox", {{"hidden_act", std::string("swish")}}) ==
        Faults{"a.toml:10: model.hidden_act is \"swish\", but must be one of \"gelu\", \"gelu_new\", \"gelu_fast\", "
               "\"gelu_pytorch_tanh\""});
}

}  // namespace gpt_neox_test
