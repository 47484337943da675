#include <capstan_catch.h>
#include "nn/model_summary.h"

#include "support/model.h"

namespace qwen3_test {

using namespace capstan;
using capstan::testing::files_of;
using capstan::testing::make_model;
using capstan::testing::model_faults;
using capstan::testing::model_host;
using capstan::testing::ModelOptions;
using capstan::testing::records_of;

namespace {

std::int64_t integer(std::int64_t value) { return value; }

const ModelOptions tiny{{"num_layers", integer(1)},   {"hidden_size", integer(12)}, {"num_heads", integer(4)},
                        {"num_kv_heads", integer(2)}, {"head_dim", integer(6)},     {"ff_dim", integer(20)},
                        {"vocab_size", integer(31)}};

}  // namespace

TEST_CASE("presets have the published models' parameters") {
  const std::map<std::string, std::int64_t> published{
      {"qwen3-0.6b", 596049920},      {"qwen3-1.7b", 1720574976},        {"qwen3-4b", 4022468096},
      {"qwen3-8b", 8190735360},       {"qwen3-14b", 14768307200},        {"qwen3-32b", 32762123264},
      {"qwen3-30b-a3b", 30532122624}, {"qwen3-235b-a22b", 235093634560}, {"qwen3-vl-2b", 1720574976},
      {"qwen3-vl-4b", 4022468096},    {"qwen3-vl-8b", 8190735360},       {"qwen3-vl-32b", 32762123264}};
  CHECK(model_host().load("model", "qwen3").presets.size() == published.size());
  for (const auto& [preset, parameters] : published) {
    INFO(preset);
    CHECK(nn::summarise(make_model("qwen3", {}, preset)->build()).parameters == parameters);
  }
}

TEST_CASE("Qwen 3 VL's text model by itself is written as the Qwen 3 that it is") {
  const auto map = make_model("qwen3", testing::tiny_with({{"model_type", std::string("qwen3_vl_text")}}))->file_map();
  CHECK(map.architecture == "Qwen3ForCausalLM");
  CHECK(map.more.at("model_type") == "\"qwen3\"");
}

TEST_CASE("facts and floating-point operations of the mixture: a token's experts and the router count") {
  const auto model = make_model("qwen3", {}, "qwen3-30b-a3b");
  CHECK(model->facts().num_experts == 128);
  CHECK(model->facts().experts_per_token == 8);
  CHECK(model->facts().num_kv_heads == 4);
  CHECK(make_model("qwen3", tiny)->facts().num_experts == 0);
  // A layer: q, k, v and o 18,874,368; 8 experts of 3 x 2048 x 768; router 128 x 2048. The head 151936 x 2048.
  const double matrices = 48.0 * (18874368 + 8 * 3 * 2048 * 768 + 128 * 2048) + 151936.0 * 2048;
  CHECK(model->flops_per_token(1000) == 6 * matrices + 6.0 * 48 * 4096 * 1000);
}

TEST_CASE("norms of q and k are by head, and have the files' names") {
  const auto files = files_of(*make_model("qwen3", tiny));
  CHECK(files.at("layers.0.self_attn.q_norm.weight") == layout::Shape{6});
  CHECK(files.at("layers.0.self_attn.k_norm.weight") == layout::Shape{6});
  CHECK(files.at("layers.0.self_attn.q_proj.weight") == layout::Shape{24, 12});
  CHECK(files.count("layers.0.self_attn.q_proj.bias") == 0);
  auto biased = tiny;
  biased.emplace_back("attention_bias", true);
  CHECK(files_of(*make_model("qwen3", biased)).count("layers.0.self_attn.o_proj.bias") == 1);
  const auto records = records_of(*make_model("qwen3", tiny));
  const auto& norm = records.at("model.layers.0.self_attn.q_norm.weight");
  CHECK(norm.init.kind == layout::Init::Kind::ones);
  CHECK_FALSE(norm.decay);
  CHECK(norm.partial_axes.empty());  // the layer declares what a rank does with it
}

TEST_CASE("an expert has three tensors in files") {
  auto options = tiny;
  options.insert(options.end(),
                 {{"model_type", std::string("qwen3_moe")}, {"num_experts", integer(2)}, {"expert_dim", integer(5)}});
  const auto files = files_of(*make_model("qwen3", options));
  CHECK(files.at("layers.0.mlp.gate.weight") == layout::Shape{2, 12});
  CHECK(files.at("layers.0.mlp.experts.1.gate_proj.weight") == layout::Shape{5, 12});
  CHECK(files.at("layers.0.mlp.experts.1.up_proj.weight") == layout::Shape{5, 12});
  CHECK(files.at("layers.0.mlp.experts.1.down_proj.weight") == layout::Shape{12, 5});
}

TEST_CASE("what the architecture does not cover is refused by name") {
  using Faults = std::vector<std::string>;
  const auto faults = [](ModelOptions options) {
    options.emplace_back("model_type", std::string("qwen3_moe"));
    return model_faults("qwen3", options);
  };
  CHECK(faults({{"num_layers", integer(2)}, {"decoder_sparse_step", integer(3)}}) ==
        Faults{"a.toml:11: model.sparse_step and dense_layers leave no block any experts\n"
               "    fix: set model_type = \"qwen3\", or sparse_step = 1"});
  CHECK(faults({{"num_layers", integer(2)}, {"mlp_only_layers", std::vector<std::int64_t>{2}}}) ==
        Faults{"a.toml:11: model.dense_layers has block 2, but model.num_layers is 2\n"
               "    fix: blocks are counted from 0"});
  CHECK(faults({{"num_experts", integer(2)}, {"experts_per_token", integer(3)}}) ==
        Faults{"a.toml:11: model.experts_per_token 3 is more than model.num_experts 2\n    fix: use at most 2"});
  CHECK(faults({{"sliding_window", integer(9)}, {"use_sliding_window", true}}).empty());
  CHECK(faults({{"layer_types", std::vector<std::string>{"full_attention"}}}) ==
        Faults{"a.toml:10: model.layer_types is set, but all blocks of a qwen3_moe see the same positions\n"
               "    fix: remove it"});
}

TEST_CASE("blocks of the mixture without experts have a plain feed-forward layer") {
  auto options = tiny;
  options.front().second = integer(4);
  options.insert(options.end(), {{"model_type", std::string("qwen3_moe")},
                                 {"num_experts", integer(2)},
                                 {"expert_dim", integer(5)},
                                 {"decoder_sparse_step", integer(2)},
                                 {"mlp_only_layers", std::vector<std::int64_t>{3}}});
  const auto model = make_model("qwen3", options);
  const auto files = files_of(*model);
  for (const int block : {0, 2, 3}) {
    const auto name = "layers." + std::to_string(block) + ".mlp.";
    CHECK(files.at(name + "up_proj.weight") == layout::Shape{20, 12});
    CHECK(files.count(name + "gate.weight") == 0);
  }
  CHECK(files.count("layers.1.mlp.up_proj.weight") == 0);
  CHECK(files.at("layers.1.mlp.experts.1.up_proj.weight") == layout::Shape{5, 12});
  // A layer: q, k, v and o 864; 2 experts of 3 x 12 x 5 and the router; or 3 x 12 x 20. The head 31 x 12.
  const double matrices = 4.0 * 864 + (2 * 3 * 12 * 5 + 2 * 12) + 3 * 3 * 12 * 20 + 31.0 * 12;
  CHECK(model->flops_per_token(100) == 6 * matrices + 6.0 * 4 * 24 * 100);
}

}  // namespace qwen3_test
