#include "options.h"

#include <capstan/base/text.h>

#include <cmath>

namespace gemma4 {

using capstan::cat;
using O = Gemma4Options;

std::vector<bool> Gemma4Options::globals() const {
  std::vector<bool> kinds;
  for (std::int64_t i = 0; i < num_layers; ++i) kinds.push_back(i + 1 == num_layers || !is_local(i));
  return kinds;
}

std::int64_t Gemma4Options::turned() const {
  return 2 * static_cast<std::int64_t>(std::floor(turned_part.value_or(1) * static_cast<double>(global_head_dim) / 2));
}

namespace {

void describe_experts(capstan::config::OptionTable<Gemma4Options>& t) {
  t.add("routed_experts", &O::routed_experts)
      .spelling("enable_moe_block")
      .doc("each block has experts beside its feed-forward layer, to which a router sends each token");
  t.add("num_experts", &O::num_experts).min(1).max(65536).doc("experts in each block; required with routed_experts");
  t.add("experts_per_token", &O::experts_per_token)
      .min(1)
      .spelling("top_k_experts")
      .doc("of these, experts that compute each token; none is dropped; required with routed_experts");
  t.add("expert_dim", &O::expert_dim)
      .min(1)
      .spelling("moe_intermediate_size")
      .doc("width of an expert; required with routed_experts");
}

}  // namespace

void Gemma4Options::describe(capstan::config::OptionTable<Gemma4Options>& t) {
  t.add("model_type", &O::model_type).choices({"gemma4_text"}).doc("family of the config.json");
  t.add("rope_theta", &O::rope_theta)
      .above(0)
      .spelling(global_rope + "rope_theta")
      .doc("base of the rotary frequencies of global blocks, which are those of whole heads");
  t.add("turned_part", &O::turned_part)
      .above(0)
      .max(1)
      .spelling(global_rope + "partial_rotary_factor")
      .doc("required: how much of a global block's heads turns; published models have 0.25");
  t.add("local_rope_theta", &O::local_rope_theta)
      .above(0)
      .spelling(local_rope + "rope_theta")
      .doc("required: base of the rotary frequencies of local blocks; published models have 1e4");
  t.add("global_head_dim", &O::global_head_dim)
      .min(2)
      .doc("width of a global block's heads; head_dim is local blocks'");
  t.add("global_kv_heads", &O::global_kv_heads)
      .min(1)
      .spelling("num_global_key_value_heads")
      .doc("key heads of global blocks whose keys are values; num_kv_heads when not set");
  t.add("keys_are_values", &O::keys_are_values)
      .spelling("attention_k_eq_v")
      .doc("values of global blocks are their keys before norm and rotation");
  capstan::decoder::describe_key_sharing(t);
  capstan::decoder::describe_block_inputs(t);
  describe_experts(t);
  capstan::decoder::describe_gemma(t);
}

namespace {

void check_experts(const capstan::config::Options<Gemma4Options>& options, capstan::Diagnostics& diagnostics) {
  const auto& o = *options;
  if (!o.routed_experts) return;
  if (!o.num_experts || !o.experts_per_token || !o.expert_dim) {
    diagnostics.add(options.where(&O::routed_experts),
                    "model.routed_experts is set, but not all of num_experts, experts_per_token and expert_dim are",
                    "set them, or routed_experts = false");
  } else if (*o.experts_per_token > *o.num_experts) {
    diagnostics.add(
        options.where(&O::experts_per_token),
        cat("model.experts_per_token ", *o.experts_per_token, " is more than model.num_experts ", *o.num_experts),
        cat("use at most ", *o.num_experts));
  }
}

}  // namespace

void check_options(const capstan::config::Options<Gemma4Options>& options, capstan::Diagnostics& diagnostics) {
  const auto& o = *options;
  const auto refuse = [&](auto member, const std::string& what, const std::string& fix) {
    diagnostics.add(options.where(member), what, fix);
  };
  if (!o.turned_part) refuse(&O::turned_part, "model.turned_part is not set", "set it, to 0.25 in published models");
  if (!o.local_rope_theta)
    refuse(&O::local_rope_theta, "model.local_rope_theta is not set", "set it, to 1e4 in published models");
  if (o.global_head_dim % 2 != 0 || o.global_head_dim > 512 || o.turned() < 2) {
    refuse(&O::global_head_dim,
           cat("global attention heads of ", o.global_head_dim, " numbers, with ", o.turned(),
               " that turn, are not supported"),
           "use an even global_head_dim of at most 512, and a larger turned_part");
  }
  if (const auto keys = o.global_kv_heads.value_or(1); o.num_heads % keys != 0) {
    refuse(&O::global_kv_heads,
           cat("model.num_heads ", o.num_heads, " is not divisible by model.global_kv_heads ", keys),
           "each key head serves the same number of query heads");
  }
  check_experts(options, diagnostics);
  capstan::decoder::check_block_inputs(options, o.vocab_size, diagnostics);
  capstan::decoder::check_key_sharing(options, o.globals(), diagnostics);
}

}  // namespace gemma4
