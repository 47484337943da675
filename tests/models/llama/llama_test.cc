// The plugin as the host loads it. What it computes is compared with transformers in tests/system/parity.
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include "nn/model_summary.h"

#include "support/model.h"

namespace llama_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

std::int64_t integer(std::int64_t value) { return value; }

}  // namespace

TEST_CASE("llama: presets have the published models' parameters") {
  const std::map<std::string, std::int64_t> published{
      {"llama2-7b", 6738415616},       {"llama2-13b", 13015864320},     {"llama2-70b", 68976648192},
      {"llama3.1-8b", 8030261248},     {"llama3.1-70b", 70553706496},   {"llama3.2-1b", 1235814400},
      {"llama3.2-3b", 3212749824},     {"mistral-7b-v0.3", 7248023552}, {"qwen2.5-0.5b", 494032768},
      {"qwen2.5-7b", 7615616512},      {"llama-7b", 6738415616},        {"llama-13b", 13015864320},
      {"llama-30b", 32528943616},      {"llama-65b", 65285660672},      {"llama3-8b", 8030261248},
      {"llama3-70b", 70553706496},     {"llama3.1-405b", 405853388800}, {"llama3.3-70b", 70553706496},
      {"mistral-7b-v0.1", 7241732096}, {"mistral-nemo", 12247782400},   {"mistral-small-24b", 23572403200},
      {"qwen2.5-1.5b", 1543714304},    {"qwen2.5-3b", 3085938688},      {"qwen2.5-14b", 14770033664},
      {"qwen2.5-32b", 32763876352},    {"qwen2.5-72b", 72706203648}};
  CHECK(parameters_of_presets("llama") == published);
}

TEST_CASE("llama: Llama 3.1 8B: sizes, summary and floating-point operations") {
  const auto model = make_model("llama", {}, "llama3.1-8b");
  const auto facts = model->facts();
  CHECK(facts.vocab_size == 128256);
  CHECK(facts.max_positions == 131072);
  CHECK(facts.hidden_size == 4096);
  CHECK(facts.num_layers == 32);
  CHECK(facts.num_heads == 32);
  CHECK(!facts.attention_dropout);
  CHECK(nn::summarise(model->build()).text() ==
        "8,030,261,248 parameters = embedding 525,336,576 + 32 blocks x 218,112,000 + head 525,340,672");
  // 6 x (32 (4096 x 6144 + 4096 x 4096 + 3 x 4096 x 14336) + 4096 x 128256) + 6 x 32 x 4096 x 8192.
  CHECK(model->flops_per_token(8192) == 6.0 * 7504658432 + 6442450944.0);
}

TEST_CASE("llama: records are Hugging Face's tensors; q, k, v and gate, up are fused groups of a matrix each") {
  const auto model = make_model("llama", {{"num_layers", integer(1)},
                                          {"hidden_size", integer(12)},
                                          {"num_heads", integer(4)},
                                          {"num_kv_heads", integer(2)},
                                          {"head_dim", integer(6)},
                                          {"ff_dim", integer(20)},
                                          {"vocab_size", integer(31)}});
  const std::map<std::string, layout::Shape> expected{{"embed_tokens.weight", {31, 12}},
                                                      {"layers.0.input_layernorm.weight", {12}},
                                                      {"layers.0.self_attn.q_proj.weight", {24, 12}},
                                                      {"layers.0.self_attn.k_proj.weight", {12, 12}},
                                                      {"layers.0.self_attn.v_proj.weight", {12, 12}},
                                                      {"layers.0.self_attn.o_proj.weight", {12, 24}},
                                                      {"layers.0.post_attention_layernorm.weight", {12}},
                                                      {"layers.0.mlp.gate_proj.weight", {20, 12}},
                                                      {"layers.0.mlp.up_proj.weight", {20, 12}},
                                                      {"layers.0.mlp.down_proj.weight", {12, 20}},
                                                      {"norm.weight", {12}},
                                                      {"lm_head.weight", {31, 12}}};
  CHECK(files_of(*model) == expected);
  CHECK(model->file_map().prefixes == std::vector<std::string>{"model."});
  std::map<std::string, layout::Shape> records;
  for (const auto& [name, record] : records_of(*model)) {
    records[name] = record.shape;
    CHECK(record.decay == (record.shape.size() == 2));
  }
  CHECK(records.count("model.layers.0.self_attn.q_proj.weight") == 1);
  CHECK(records.count("lm_head.weight") == 1);
  const auto units = model->build();
  REQUIRE(units.size() == 3);
  std::vector<std::string> linears;
  for (const auto* linear : units[1]->all<nn::Linear>())
    linears.push_back(linear->name() + " " + linear->weight()->name());
  CHECK(linears == std::vector<std::string>{"linear_qkv model.layers.0.self_attn.q_proj+k_proj+v_proj.weight",
                                            "linear_proj model.layers.0.self_attn.o_proj.weight",
                                            "linear_fc1 model.layers.0.mlp.gate_proj+up_proj.weight",
                                            "linear_fc2 model.layers.0.mlp.down_proj.weight"});
  CHECK(units[1]->all<nn::Region>().size() == 2);
  CHECK(units[2]->all<nn::VocabularyHead>().size() == 1);
}

TEST_CASE("llama: a tied head is the embedding, and its copy in files is passed over") {
  const auto tied = make_model("llama", {{"tie_word_embeddings", true}});
  const auto units = tied->build();
  CHECK(units.front()->weights().front() == units.back()->weights().back());
  CHECK(tied->file_map().ignored == std::vector<std::string>{".rotary_emb.inv_freq"});
  CHECK(tied->file_map().copies == std::map<std::string, std::string>{{"lm_head.weight", "embed_tokens.weight"}});
  CHECK(make_model("llama", {})->file_map().copies.empty());
  CHECK(make_model("llama", {})->file_map().ignored == std::vector<std::string>{".rotary_emb.inv_freq"});
}

TEST_CASE("llama: biases: Llama's options, and Qwen 2's only on q, k and v") {
  const auto biases = [](const ModelOptions& options) {
    std::vector<std::string> out;
    for (const auto& [name, record] : records_of(*make_model("llama", options))) {
      if (name.find("layers.0.") == std::string::npos || !name.ends_with(".bias")) continue;
      CHECK(!record.decay);
      out.push_back(name.substr(std::string("model.layers.0.").size()));
    }
    return out;
  };
  CHECK(biases({}).empty());
  CHECK(biases({{"model_type", std::string("mistral")}}).empty());
  CHECK(biases({{"model_type", std::string("qwen2")}}) ==
        std::vector<std::string>{"self_attn.k_proj.bias", "self_attn.q_proj.bias", "self_attn.v_proj.bias"});
  CHECK(biases({{"attention_bias", true}, {"mlp_bias", true}}) ==
        std::vector<std::string>{"mlp.down_proj.bias", "mlp.gate_proj.bias", "mlp.up_proj.bias",
                                 "self_attn.k_proj.bias", "self_attn.o_proj.bias", "self_attn.q_proj.bias",
                                 "self_attn.v_proj.bias"});
}

TEST_CASE("llama: what the architecture does not cover is refused by name") {
  using Faults = std::vector<std::string>;
  const auto faults = [](const ModelOptions& options) { return model_faults("llama", options); };
  CHECK(faults({{"model_type", std::string("qwen3")}}) ==
        Faults{"a.toml:10: model.model_type is \"qwen3\", but must be one of \"llama\", \"mistral\", \"qwen2\"\n"
               "    fix: did you mean 'qwen2'?"});
  CHECK(faults({{"hidden_act", std::string("gelu")}}) ==
        Faults{"a.toml:10: model.hidden_act is \"gelu\", but must be one of \"silu\""});
  CHECK(faults({{"rope_type", std::string("longrope")}}) ==
        Faults{"a.toml:10: model.rope_type is \"longrope\", but must be one of \"default\", \"linear\", \"llama3\", "
               "\"yarn\""});
}

TEST_CASE("llama: windows are those that transformers reads in the family's files, and others are refused") {
  using Faults = std::vector<std::string>;
  const auto faults = [](const std::string& type, ModelOptions options) {
    options.emplace_back("model_type", type);
    return model_faults("llama", options);
  };
  const std::vector<std::string> types{"sliding_attention", "full_attention"};
  CHECK(faults("llama", {{"sliding_window", integer(1024)}}) ==
        Faults{"a.toml:10: model.sliding_window is 1024, but llama models see all positions\n"
               "    fix: set sliding_window = 2048 for none, or model_type = \"mistral\""});
  CHECK(faults("llama", {{"sliding_window", integer(2048)}}).empty());
  CHECK(faults("mistral", {{"sliding_window", integer(9)}}).empty());
  CHECK(faults("mistral", {{"sliding_window", integer(9)}, {"use_sliding_window", false}}) ==
        Faults{"a.toml:11: model.use_sliding_window is false, but mistral models use every sliding_window that they "
               "have\n    fix: set sliding_window = 2048 for none"});
  CHECK(faults("mistral", {{"layer_types", types}}) ==
        Faults{"a.toml:10: model.layer_types is set, but all blocks of a mistral see the same positions\n"
               "    fix: remove it, or set model_type = \"qwen2\""});
  CHECK(
      faults("qwen2", {{"sliding_window", integer(9)}, {"use_sliding_window", true}, {"layer_types", types}}).empty());
  CHECK(faults("qwen2", {{"sliding_window", integer(9)}, {"layer_types", types}}) ==
        Faults{"a.toml:11: model.layer_types has \"sliding_attention\", but model.use_sliding_window is not true\n"
               "    fix: set use_sliding_window = true, or \"full_attention\" for each block"});
  CHECK(faults("qwen2", {{"num_layers", integer(3)}, {"use_sliding_window", true}, {"layer_types", types}}) ==
        Faults{"a.toml:12: model.layer_types has 2 entries, but model.num_layers is 3\n"
               "    fix: give one for each block, or remove it"});
  CHECK(faults("qwen2", {{"layer_types", std::vector<std::string>{"full_attention", "chunked_attention"}}}) ==
        Faults{"a.toml:10: model.layer_types has \"chunked_attention\"\n"
               "    fix: use \"full_attention\" and \"sliding_attention\"; there are no others"});
}

TEST_CASE("llama: a window makes attention cheaper in the blocks that have it") {
  const auto flops = [](ModelOptions options) {
    options.emplace_back("seq_length", integer(100));
    options.emplace_back("num_layers", integer(2));
    return make_model("llama", options)->flops_per_token(100);
  };
  const auto all = flops({});
  const auto qwen2 = flops({{"model_type", std::string("qwen2")}});
  CHECK(qwen2 == all);
  // 12 x 128 features x (50 - (10 - 10 x 10 / 200)) positions fewer in each such block.
  const auto saved = 12.0 * 128 * (50 - 9.5);
  CHECK(flops({{"model_type", std::string("mistral")}, {"sliding_window", integer(10)}}) == all - 2 * saved);
  const ModelOptions some{
      {"model_type", std::string("qwen2")}, {"sliding_window", integer(10)}, {"max_window_layers", integer(1)}};
  CHECK(flops(some) == all);  // not in use
  auto used = some;
  used.emplace_back("use_sliding_window", true);
  CHECK(flops(used) == all - saved);
  used.emplace_back("layer_types", std::vector<std::string>{"sliding_attention", "sliding_attention"});
  CHECK(flops(used) == all - 2 * saved);
}

TEST_CASE("llama: sizes that don't fit are said with their line and a fix, all at once") {
  using Faults = std::vector<std::string>;
  const auto faults = [](const ModelOptions& options) { return model_faults("llama", options); };
  CHECK(faults({{"hidden_size", integer(10)}, {"num_heads", integer(4)}, {"num_kv_heads", integer(3)}}) ==
        Faults{"a.toml:10: model.hidden_size 10 is not divisible by model.num_heads 4\n"
               "    fix: use hidden_size 12, another number of heads, or set head_dim",
               "a.toml:12: model.num_heads 4 is not divisible by model.num_kv_heads 3\n"
               "    fix: each key head serves the same number of query heads"});
  CHECK(faults({{"hidden_size", integer(12)}, {"num_heads", integer(4)}}) ==
        Faults{
            "a.toml:10: attention heads of 3 numbers are not supported\n    fix: use an even head_dim of at most 512"});
  CHECK(faults({{"head_dim", integer(512)}}).empty());
  CHECK(faults({{"head_dim", integer(514)}}).size() == 1);
  CHECK(faults({{"head_dim", integer(5)}}) ==
        Faults{
            "a.toml:10: attention heads of 5 numbers are not supported\n    fix: use an even head_dim of at most 512"});
  CHECK(faults({{"rope_type", std::string("llama3")}}) ==
        Faults{"a.toml:10: model.rope_type is \"llama3\", but model.rope_factor is not set\n"
               "    fix: set rope_factor, 8 in Llama 3.1"});
  CHECK(faults({{"rope_type", std::string("yarn")}, {"rope_factor", 4.0}}) ==
        Faults{
            "a.toml:10: model.rope_type is \"yarn\", but model.rope_original_length is not set\n    fix: set it to the "
            "sequence length that the unscaled model was trained on (max_position_embeddings of its config.json)"});
  CHECK(faults({{"rope_low_frequency_factor", 4.0}, {"rope_type", std::string("llama3")}, {"rope_factor", 8.0}}) ==
        Faults{"a.toml:10: model.rope_low_frequency_factor 4 is not below model.rope_high_frequency_factor 4\n"
               "    fix: use 1 and 4, as Llama 3.1 does"});
}

}  // namespace llama_test
