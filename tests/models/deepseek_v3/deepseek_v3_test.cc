// The plugin as the host loads it. What it computes is compared with transformers in tests/system/parity.
#include <capstan_catch.h>

#include "support/model.h"

namespace deepseek_v3_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

std::int64_t integer(std::int64_t value) { return value; }

}  // namespace

TEST_CASE("deepseek_v3: DeepSeek V3: the published number of parameters, and floating-point operations") {
  const auto model = make_model("deepseek_v3", {}, "deepseek-v3");
  // 671,026,404,352 parameters without the prediction layer, and 58 corrections of 256.
  CHECK(nn::summarise(model->build()).parameters == 671026404352 + 58LL * 256);
  const std::int64_t attention =
      7168LL * 1536 + 1536LL * 128 * 192 + 7168LL * 576 + 512LL * 128 * 256 + 128LL * 128 * 7168;
  const std::int64_t weights =
      61 * attention + 3LL * 3 * 7168 * 18432 + 58 * (9LL * 3 * 7168 * 2048 + 256LL * 7168) + 129280LL * 7168;
  CHECK(model->flops_per_token(4096) == 6.0 * static_cast<double>(weights) + 6.0 * 61 * 2048 * 128 * (192 + 128));
  CHECK(model->facts().num_kv_heads == 128);
}

TEST_CASE("deepseek_v3: DeepSeek V2 Lite: the published number of parameters, and routers without a correction") {
  const auto model = make_model("deepseek_v3", {}, "deepseek-v2-lite");
  CHECK(nn::summarise(model->build()).parameters == 15706484224);
  CHECK_FALSE(records_of(*model).contains("model.layers.1.mlp.gate.e_score_correction_bias"));
}

TEST_CASE("deepseek_v3: attention has latents with norms of their own, and queries may come from the states") {
  ModelOptions options{{"num_layers", integer(2)}, {"hidden_size", integer(16)}, {"num_heads", integer(2)},
                       {"query_rank", integer(9)}, {"key_rank", integer(7)},     {"still_dim", integer(5)},
                       {"turned_dim", integer(4)}, {"value_dim", integer(6)},    {"vocab_size", integer(31)}};
  const auto records = records_of(*make_model("deepseek_v3", options));
  const std::string at = "model.layers.0.self_attn.";
  CHECK(records.at(at + "q_a_proj.weight").shape == layout::Shape{9, 16});
  CHECK(records.at(at + "q_a_layernorm.weight").shape == layout::Shape{9});
  CHECK(records.at(at + "q_b_proj.weight").shape == layout::Shape{18, 9});
  CHECK(records.at(at + "kv_a_proj_with_mqa.weight").shape == layout::Shape{11, 16});
  CHECK(records.at(at + "kv_a_layernorm.weight").shape == layout::Shape{7});
  CHECK(records.at(at + "kv_b_proj.weight").shape == layout::Shape{22, 7});
  CHECK(records.at(at + "o_proj.weight").shape == layout::Shape{16, 12});
  options.erase(options.begin() + 3);
  const auto plain = records_of(*make_model("deepseek_v3", options));
  CHECK(plain.at(at + "q_proj.weight").shape == layout::Shape{18, 16});
  CHECK_FALSE(plain.contains(at + "q_a_proj.weight"));
}

TEST_CASE("deepseek_v3: what such attention has no choice of is refused by name") {
  using Faults = std::vector<std::string>;
  const auto faults = [](const ModelOptions& options) { return model_faults("deepseek_v3", options); };
  CHECK(faults({{"num_kv_heads", integer(4)}}).empty());
  CHECK(faults({{"num_kv_heads", integer(2)}}) ==
        Faults{"a.toml:10: model.num_kv_heads is 2, but each of the 4 heads has keys and values of its own, from one "
               "latent\n    fix: leave it out, or set it to 4"});
  CHECK(faults({{"turned_dim", integer(5)}}) ==
        Faults{"a.toml:10: model.turned_dim is 5\n    fix: an even number of a head's numbers can turn"});
  CHECK(faults({{"head_dim", integer(8)}}).empty());
  CHECK(faults({{"head_dim", integer(24)}}).size() == 1);
  const std::pair<std::string, config::Value> v2{"model_type", std::string("deepseek_v2")},
      two{"experts_per_token", integer(2)};
  CHECK_THAT(faults({v2}).front(), Contains("experts_per_token is not set"));
  CHECK_THAT(faults({v2, two}).front(), Contains("normalise_weights = false"));
  CHECK(faults({v2, two, {"normalise_weights", false}}).empty());
}

}  // namespace deepseek_v3_test
