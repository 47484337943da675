// What files say: published sizes, and what transformers takes for keys that are missing.
#include "options.h"

#include <capstan/decoder/file_keys.h>

#include <utility>

namespace qwen3_5 {

namespace decoder = capstan::decoder;

// The published config.json files' numbers.
capstan::config::Presets Qwen35Options::presets() {
  const auto preset = [](const char* type, const decoder::RotarySizes& sizes, bool tied, std::int64_t value_heads) {
    auto out = decoder::rotary_preset(type, sizes, 1e-6, 1e7, tied);
    out.insert(out.end(), {{"head_dim", std::int64_t{256}},
                           {"delta_key_heads", std::int64_t{16}},
                           {"delta_value_heads", value_heads},
                           {"delta_key_dim", std::int64_t{128}},
                           {"delta_value_dim", std::int64_t{128}}});
    return out;
  };
  const auto dense = [&](const decoder::RotarySizes& sizes, bool tied, std::int64_t value_heads) {
    return preset("qwen3_5_text", sizes, tied, value_heads);
  };
  auto mixture = preset("qwen3_5_moe_text", {248320, 2048, 40, 16, 2, 512, 262144}, false, 32);
  mixture.insert(mixture.end(), {{"expert_dim", std::int64_t{512}},
                                 {"shared_expert_dim", std::int64_t{512}},
                                 {"num_experts", std::int64_t{256}},
                                 {"experts_per_token", std::int64_t{8}}});
  auto next = preset("qwen3_next", {151936, 2048, 48, 16, 2, 5120, 262144}, false, 32);
  next.insert(next.end(), {{"expert_dim", std::int64_t{512}},
                           {"shared_expert_dim", std::int64_t{512}},
                           {"num_experts", std::int64_t{512}},
                           {"experts_per_token", std::int64_t{10}}});
  return {{"qwen3-next-80b-a3b", std::move(next)},
          {"qwen3.5-0.8b", dense({248320, 1024, 24, 8, 2, 3584, 262144}, true, 16)},
          {"qwen3.5-4b", dense({248320, 2560, 32, 16, 4, 9216, 262144}, true, 32)},
          {"qwen3.5-9b", dense({248320, 4096, 32, 16, 4, 12288, 262144}, false, 32)},
          {"qwen3.5-27b", dense({248320, 5120, 64, 24, 4, 17408, 262144}, false, 48)},
          {"qwen3.5-35b-a3b", std::move(mixture)}};
}

capstan::config::Presets Qwen35Options::file_defaults() {
  const auto with = [](std::int64_t kv_heads) {
    return decoder::rotary_defaults({.length = 32768}, {{"num_kv_heads", kv_heads},
                                                        {"head_dim", std::int64_t{256}},
                                                        {"attention_bias", false},
                                                        {"partial_rotary_factor", 0.25},
                                                        {"full_attention_interval", std::int64_t{4}},
                                                        {"delta_key_heads", std::int64_t{16}},
                                                        {"delta_value_heads", std::int64_t{32}},
                                                        {"delta_key_dim", std::int64_t{128}},
                                                        {"delta_value_dim", std::int64_t{128}},
                                                        {"delta_kernel", std::int64_t{4}}});
  };
  auto mixture = with(2);
  mixture.insert(mixture.end(), {{"ff_dim", std::int64_t{512}},  // of no block
                                 {"num_experts", std::int64_t{256}},
                                 {"experts_per_token", std::int64_t{8}},
                                 {"expert_dim", std::int64_t{512}},
                                 {"shared_expert_dim", std::int64_t{512}},
                                 {"router_aux_loss", false},
                                 {"router_aux_loss_coef", 0.001}});
  auto next = mixture;
  std::erase_if(next, [](const auto& option) { return option.first == "ff_dim"; });  // which its files have
  for (auto& [key, value] : next) {
    if (key == "num_experts") value = std::int64_t{512};
    if (key == "experts_per_token") value = std::int64_t{10};
  }
  const capstan::config::Preset around{{"tie_word_embeddings", false}};
  return {{"qwen3_5_text", with(4)},
          {"qwen3_5_moe_text", std::move(mixture)},
          {"qwen3_next", std::move(next)},
          {"qwen3_5", around},
          {"qwen3_5_moe", around}};
}

std::vector<capstan::config::FileKeys> Qwen35Options::file_keys() {
  auto keys = decoder::joined({decoder::own_names({"expert_dim", "shared_expert_dim", "experts_per_token",
                                                   "router_aux_loss", "experts_together"}),
                               hybrid_keys(), decoder::rotary_keys({"partial_rotary_factor"})});
  return decoder::file_keys({decoder::family_keys("qwen3_5_text", keys), decoder::family_keys("qwen3_5_moe_text", keys),
                             decoder::family_keys("qwen3_next", keys),
                             decoder::wrapper_keys("qwen3_5", "Qwen3_5ForConditionalGeneration"),
                             decoder::wrapper_keys("qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration")});
}

}  // namespace qwen3_5
