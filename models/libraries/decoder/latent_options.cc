#include <capstan/base/text.h>
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/latent_options.h>

#include <algorithm>
#include <cmath>

namespace capstan::decoder {

using Latents = LatentOptions;

void LatentOptions::attend(Spec& spec) const {
  const auto dim = still_dim + turned_dim;
  spec.attention.heads = {num_heads, num_heads, dim, value_dim};
  spec.attention.scale = 1 / std::sqrt(static_cast<double>(dim));
  const auto stretched = rope_type == "default" ? 1 : std::max(1.0, rope_factor.value_or(1));
  const auto sharper = 0.1 * rope_mscale_all.value_or(0) * std::log(stretched) + 1;  // transformers' yarn_get_mscale
  *spec.attention.scale *= sharper * sharper;
  spec.rotary = nn::Rotary(turned_dim, rope_theta, scaling(), {.turned = 0, .interleaved = interleaved});
  LatentSpec latent;
  latent.query_rank = query_rank.value_or(0);
  latent.key_rank = key_rank;
  latent.turned = turned_dim;
  latent.turned_factor = std::sqrt(scaling().score_factor());
  latent.bias = attention_bias;
  spec.latent = latent;
  spec.projection_bias = attention_bias;
}

void describe_latents(config::OptionTable<LatentOptions> table) {
  table.add("query_rank", &Latents::query_rank)
      .min(1)
      .spelling("q_lora_rank")
      .doc("width of the latent that queries are made from; they are made from the states when not set");
  table.add("key_rank", &Latents::key_rank)
      .min(1)
      .spelling("kv_lora_rank")
      .doc("width of the latent of keys and values");
  table.add("still_dim", &Latents::still_dim)
      .min(1)
      .spelling("qk_nope_head_dim")
      .doc("a head's numbers that do not turn");
  table.add("turned_dim", &Latents::turned_dim)
      .min(2)
      .spelling("qk_rope_head_dim")
      .doc("a head's further numbers, which turn with the position; an even number");
  table.add("value_dim", &Latents::value_dim).min(1).spelling("v_head_dim").doc("width of a head's values");
  table.add("attention_bias", &Latents::attention_bias).doc("biases of the latents and of the output product");
  table.add("interleaved", &Latents::interleaved)
      .spelling("rope_interleave")
      .doc("numbers that turn together are neighbours; false: i and i + turned_dim / 2");
}

void check_latents(const config::Options<LatentOptions>& options, Diagnostics& diagnostics) {
  const auto& o = *options;
  if (o.kv_heads() != o.num_heads) {
    diagnostics.add(options.where(&Latents::num_kv_heads),
                    cat("model.num_kv_heads is ", o.kv_heads(), ", but each of the ", o.num_heads,
                        " heads has keys and values of its own, from one latent"),
                    cat("leave it out, or set it to ", o.num_heads));
  }
  if (o.turned_dim % 2 != 0) {
    diagnostics.add(options.where(&Latents::turned_dim), cat("model.turned_dim is ", o.turned_dim),
                    "an even number of a head's numbers can turn");
  }
  if (o.head_dim && *o.head_dim != o.turned_dim) {
    diagnostics.add(options.where(&Latents::head_dim),
                    cat("model.head_dim is ", *o.head_dim, ", but transformers has model.turned_dim ", o.turned_dim,
                        " under this name"),
                    "leave it out: a head's width is still_dim + turned_dim");
  }
}

void describe_latent_files(const LatentOptions& options, layout::FileMap& map) {
  map.more["head_dim"] = std::to_string(options.turned_dim);
}

std::vector<config::FileKey> latent_keys() {
  auto keys = rotary_keys();
  for (auto& name : own_names({"query_rank", "key_rank", "still_dim", "turned_dim", "value_dim", "interleaved"}))
    keys.push_back(std::move(name));
  keys.push_back({"qk_head_dim", config::FileKey::Use::neutral, "it is the sum of the two parts of a head"});
  return keys;
}

config::Preset latent_preset(const LatentSizes& sizes) {
  config::Preset out{
      {"key_rank", sizes.key}, {"still_dim", sizes.still}, {"turned_dim", sizes.turned}, {"value_dim", sizes.value}};
  if (sizes.query > 0) out.emplace_back("query_rank", sizes.query);
  return out;
}

}  // namespace capstan::decoder
