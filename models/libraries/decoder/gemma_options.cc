#include <capstan/base/text.h>
#include <capstan/decoder/gemma_options.h>

#include <cmath>
#include <utility>

namespace capstan::decoder {
namespace {

using G = GemmaOptions;

}  // namespace

bool GemmaOptions::is_local(std::int64_t block) const {
  const auto at = static_cast<std::size_t>(block);
  return at < layer_types.size() ? layer_types[at] == "sliding_attention" : (block + 1) % global_every != 0;
}

Spec GemmaOptions::spec() const {
  auto made = RotaryOptions::spec();
  made.norm_after = true;
  made.norm_factor = nn::RmsNorm::Factor::one_plus_weight;
  made.names.attention_post_norm = "post_attention_layernorm";
  made.names.mlp_norm = "pre_feedforward_layernorm";
  made.names.mlp_post_norm = "post_feedforward_layernorm";
  made.qkv_bias = made.projection_bias = attention_bias;
  made.embedding_multiplier = std::sqrt(static_cast<double>(hidden_size));
  made.rounds_multiplier = true;
  made.attention.scale = 1 / std::sqrt(static_cast<double>(query_pre_attn_scalar));
  made.logits_cap = logits_cap;
  made.attention.window = window();
  for (std::int64_t i = 0; i < num_layers; ++i) {
    if (!is_local(i)) made.blocks_without_window.insert(i);
  }
  return made;
}

void describe_gemma(config::OptionTable<GemmaOptions> table) {
  describe_rotary_sizes(table, "the gated feed-forward layer");
  table.add("layer_types", &G::layer_types)
      .doc(R"("sliding_attention" (a local block) or "full_attention" (a global one) for each block)");
  describe_window(table, "local blocks");
  table.add("attention_bias", &G::attention_bias).doc("biases on q, k, v and the output product");
  table.add("logits_cap", &G::logits_cap)
      .above(0)
      .spelling("final_logit_softcapping")
      .doc("logits are this times tanh(logit / this); not set: they are as they are");
  describe_rotary_rest(table, "gelu_pytorch_tanh", "hidden_activation");
}

void describe_query_scalar(config::OptionTable<GemmaOptions> table) {
  table.add("query_pre_attn_scalar", &G::query_pre_attn_scalar)
      .min(1)
      .doc("scores are q k divided by the root of this");
}

void check_gemma(const config::Options<GemmaOptions>& options, Diagnostics& diagnostics) {
  check_rotary(options, diagnostics);
  check_rotary_scaling(options, diagnostics);
  check_kinds_of_blocks(options->layer_types, options.where(&G::layer_types), options->num_layers, diagnostics);
}

std::vector<config::FileKey> gemma_keys() {
  auto keys = own_names({"logits_cap", "global_every"});
  const auto more = neutral_keys({"hidden_act", "_sliding_window_pattern"},
                                 "transformers reads hidden_activation and layer_types instead");
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

config::Preset gemma_defaults(RotaryDefaults family, config::Preset more) {
  family.activation = "gelu_pytorch_tanh";
  family.tied = true;
  more.insert(more.end(), {{"attention_bias", false}, {"head_dim", std::int64_t{256}}});
  return rotary_defaults(family, more);
}

config::Preset gemma_preset(const std::string& model_type, const RotarySizes& sizes, double theta,
                            config::Preset more) {
  auto out = rotary_preset(model_type, sizes, 1e-6, theta, true);
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

void describe_gemma_files(const GemmaOptions& options, layout::FileMap& map) {
  describe_rotary_files(options, map);
  describe_rotary_scaling_files(options, map);
  map.left_out.insert(map.left_out.end(), {"layer_types", "global_every"});
  std::string types;
  for (std::int64_t i = 0; i < options.num_layers; ++i)
    types += cat(types.empty() ? "[" : ", ", options.is_local(i) ? "\"sliding_attention\"" : "\"full_attention\"");
  map.more["layer_types"] = types + "]";
}

}  // namespace capstan::decoder
