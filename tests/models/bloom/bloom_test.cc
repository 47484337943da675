// The plugin as the host loads it. What it computes is compared with transformers in tests/system/parity.
#include <capstan_catch.h>
#include "nn/model_summary.h"

#include "support/model.h"

namespace bloom_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

std::int64_t integer(std::int64_t value) { return value; }

}  // namespace

TEST_CASE("presets have the published models' parameters") {
  const std::map<std::string, std::int64_t> published{{"bloom-560m", 559214592}, {"bloom-1b1", 1065314304},
                                                      {"bloom-1b7", 1722408960}, {"bloom-3b", 3002557440},
                                                      {"bloom-7b1", 7069016064}, {"bloom-176b", 176247271424}};
  CHECK(parameters_of_presets("bloom") == published);
}

TEST_CASE("BLOOM 560M: sizes, summary and floating-point operations") {
  const auto model = make_model("bloom", {}, "bloom-560m");
  const auto facts = model->facts();
  CHECK(facts.vocab_size == 250880);
  CHECK(facts.max_positions == 2048);
  CHECK(facts.hidden_size == 1024);
  CHECK(facts.num_layers == 24);
  CHECK(facts.num_heads == 16);
  const auto units = model->build();
  CHECK(units.front()->weights().front() == units.back()->weights().back());  // tied
  CHECK(nn::summarise(units).text() ==
        "559,214,592 parameters = embedding 256,903,168 + 24 blocks x 12,596,224 + head 2,048");
  // 6 x (24 x 12 x 1024^2 + 250880 x 1024) + 6 x 24 x 1024 x 512.
  CHECK(model->flops_per_token(512) == 6.0 * 558891008 + 75497472.0);
}

TEST_CASE("records are Hugging Face's tensors; QKV is [head, 3, dim, hidden], a matrix in the file") {
  const auto model = make_model("bloom", {{"num_layers", integer(1)},
                                          {"n_embed", integer(12)},
                                          {"num_attention_heads", integer(3)},
                                          {"vocab_size", integer(31)}});
  const auto records = records_of(*model);
  CHECK(records.at("h.0.self_attention.query_key_value.weight").shape == layout::Shape{3, 3, 4, 12});
  CHECK(records.at("h.0.self_attention.query_key_value.weight").decay);
  CHECK(records.at("h.0.self_attention.query_key_value.bias").shape == layout::Shape{3, 3, 4});
  CHECK(!records.at("h.0.self_attention.query_key_value.bias").decay);
  const std::map<std::string, layout::Shape> expected{{"word_embeddings.weight", {31, 12}},
                                                      {"word_embeddings_layernorm.weight", {12}},
                                                      {"word_embeddings_layernorm.bias", {12}},
                                                      {"h.0.input_layernorm.weight", {12}},
                                                      {"h.0.input_layernorm.bias", {12}},
                                                      {"h.0.self_attention.query_key_value.weight", {36, 12}},
                                                      {"h.0.self_attention.query_key_value.bias", {36}},
                                                      {"h.0.self_attention.dense.weight", {12, 12}},
                                                      {"h.0.self_attention.dense.bias", {12}},
                                                      {"h.0.post_attention_layernorm.weight", {12}},
                                                      {"h.0.post_attention_layernorm.bias", {12}},
                                                      {"h.0.mlp.dense_h_to_4h.weight", {48, 12}},
                                                      {"h.0.mlp.dense_h_to_4h.bias", {48}},
                                                      {"h.0.mlp.dense_4h_to_h.weight", {12, 48}},
                                                      {"h.0.mlp.dense_4h_to_h.bias", {12}},
                                                      {"ln_f.weight", {12}},
                                                      {"ln_f.bias", {12}}};
  CHECK(files_of(*model) == expected);
  CHECK(model->file_map().prefixes == std::vector<std::string>{"transformer."});
  CHECK(model->file_map().copies == std::map<std::string, std::string>{{"lm_head.weight", "word_embeddings.weight"}});
  const auto units = model->build();
  CHECK(units[1]->all<nn::Linear>().size() == 4);
  CHECK(units[1]->all<nn::Alibi>().size() == 1);
  CHECK(units[1]->all<nn::Region>().size() == 2);
}

TEST_CASE("an untied head has a matrix of its own") {
  const auto model = make_model("bloom", {{"tie_word_embeddings", false}});
  CHECK(records_of(*model).count("lm_head.weight") == 1);
  CHECK(model->file_map().copies.empty());
}

TEST_CASE("faults are said with their line and a fix") {
  CHECK(model_faults("bloom", {{"hidden_size", integer(10)}, {"num_heads", integer(4)}}) ==
        std::vector<std::string>{"a.toml:10: model.hidden_size 10 is not divisible by model.num_heads 4\n"
                                 "    fix: use hidden_size 12 or another number of heads"});
  CHECK(model_faults("bloom", {{"model_type", std::string("gpt2")}}) ==
        std::vector<std::string>{"a.toml:10: model.model_type is \"gpt2\", but must be one of \"bloom\""});
}

}  // namespace bloom_test
