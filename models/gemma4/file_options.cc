// What files say: published sizes, and what transformers takes for keys that are missing.
#include <capstan/decoder/file_keys.h>

#include "options.h"

namespace gemma4 {

namespace decoder = capstan::decoder;
using capstan::config::Preset;
using Use = capstan::config::FileKey::Use;

// The published config.json files' numbers. Blocks come in groups, whose last one is global.
capstan::config::Presets Gemma4Options::presets() {
  const auto of = [](const decoder::RotarySizes& sizes, std::int64_t window, std::int64_t group, const Preset& more) {
    std::vector<std::string> types;
    for (std::int64_t i = 1; i <= sizes.layers; ++i)
      types.emplace_back(i % group == 0 ? "full_attention" : "sliding_attention");
    auto out = decoder::gemma_preset("gemma4_text", sizes, 1e6, more);
    out.insert(out.end(), {{"layer_types", types},
                           {"sliding_window", window},
                           {"head_dim", std::int64_t{256}},
                           {"global_head_dim", std::int64_t{512}},
                           {"turned_part", 0.25},
                           {"local_rope_theta", 1e4},
                           {"logits_cap", 30.0}});
    return out;
  };
  const auto small = [](std::int64_t sharing, bool wide) {
    return Preset{{"sharing_layers", sharing}, {"double_wide_mlp", wide}, {"inputs_width", std::int64_t{256}}};
  };
  const auto large = [](std::int64_t keys, const Preset& experts) {
    Preset made{{"global_kv_heads", keys}, {"keys_are_values", true}};
    made.insert(made.end(), experts.begin(), experts.end());
    return made;
  };
  const Preset experts{{"routed_experts", true},
                       {"num_experts", std::int64_t{128}},
                       {"experts_per_token", std::int64_t{8}},
                       {"expert_dim", std::int64_t{704}}};
  return {{"gemma4-e2b-text", of({262144, 1536, 35, 8, 1, 6144, 131072}, 512, 5, small(20, true))},
          {"gemma4-e4b-text", of({262144, 2560, 42, 8, 2, 10240, 131072}, 512, 6, small(18, false))},
          {"gemma4-26b-a4b-text", of({262144, 2816, 30, 16, 8, 2112, 262144}, 1024, 6, large(2, experts))},
          {"gemma4-31b-text", of({262144, 5376, 60, 32, 16, 21504, 262144}, 1024, 6, large(4, {}))}};
}

capstan::config::Presets Gemma4Options::file_defaults() {
  return {{"gemma4_text",
           decoder::gemma_defaults({.theta = 1e6, .length = 131072}, {{"num_kv_heads", std::int64_t{4}},
                                                                      {"sliding_window", std::int64_t{512}},
                                                                      {"global_head_dim", std::int64_t{512}},
                                                                      {"inputs_width", std::int64_t{256}},
                                                                      {"inputs_vocab_size", std::int64_t{262144}}})},
          {"gemma4", {{"tie_word_embeddings", true}}}};
}

std::vector<capstan::config::FileKeys> Gemma4Options::file_keys() {
  auto keys = decoder::own_names({"local_rope_theta", "turned_part", "global_kv_heads", "keys_are_values",
                                  "sharing_layers", "double_wide_mlp", "inputs_width", "inputs_vocab_size",
                                  "routed_experts", "experts_per_token", "expert_dim"});
  keys.push_back({"use_bidirectional_attention", Use::only, "such models are not supported", {"false", "\"vision\""}});
  keys.push_back({local_rope + "rope_type", Use::only, "local blocks turn by plain frequencies", {"\"default\""}});
  keys.push_back({global_rope + "rope_type", Use::only, "global blocks turn by those of heads", {"\"proportional\""}});
  for (const auto& more : {decoder::gemma_keys(), decoder::rotary_keys({"partial_rotary_factor"}, global_rope)})
    keys.insert(keys.end(), more.begin(), more.end());
  return decoder::file_keys({decoder::family_keys("gemma4_text", std::move(keys)),
                             decoder::wrapper_keys("gemma4", "Gemma4ForConditionalGeneration")});
}

}  // namespace gemma4
