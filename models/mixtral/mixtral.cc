// Mixtral's architecture (Jiang et al. 2024): Llama's attention, and experts of which each token sees the best few.
#include <capstan/base/text.h>
#include <capstan/nn/decoder.h>
#include <capstan/nn/rotary_options.h>

#include "units.h"

namespace mixtral {
namespace {

using capstan::cat;

class Mixtral : public nn::Model {
 public:
  explicit Mixtral(capstan::config::Options<MixtralOptions> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override;

  nn::ModelFacts facts() const override {
    auto facts = nn::decoder_facts(*options_, options_->attention_dropout);
    facts.num_experts = options_->num_experts;
    facts.experts_per_token = options_->experts_per_token;
    return facts;
  }

  std::vector<std::unique_ptr<nn::Unit>> build() const override {
    return nn::decoder_units<EmbeddingUnit, Block, Head>(*options_, "model.embed_tokens.weight");
  }

  // 6 per weight of every matrix product that a token takes part in (its experts, the router and the head included,
  // the table not) and 12·S·heads·dim a layer for attention, halved because it is causal (Chowdhery et al. 2022,
  // appendix B, with the causal half).
  double flops_per_token(std::int64_t sequence_length) const override {
    const auto& o = *options_;
    const auto attention = 2 * o.hidden_size * (o.num_heads + o.kv_heads()) * o.dim();
    const auto experts = o.experts_per_token * 3 * o.hidden_size * o.ff_dim + o.num_experts * o.hidden_size;
    const auto matrices = o.num_layers * (attention + experts) + o.vocab_size * o.hidden_size;
    return 6.0 * static_cast<double>(matrices) +
           6.0 * static_cast<double>(o.num_layers * o.num_heads * o.dim() * sequence_length);
  }

  capstan::layout::FileMap file_map() const override;

 private:
  capstan::config::Options<MixtralOptions> options_;
};

void Mixtral::check(capstan::Diagnostics& diagnostics) const {
  const auto& o = *options_;
  nn::check_rotary(options_, diagnostics);
  if (o.experts_per_token > o.num_experts) {
    diagnostics.add(
        options_.where(&MixtralOptions::experts_per_token),
        cat("model.experts_per_token ", o.experts_per_token, " is more than model.num_experts ", o.num_experts),
        cat("use at most ", o.num_experts));
  }
  if (o.router_jitter_noise != 0) {
    diagnostics.add(options_.where(&MixtralOptions::router_jitter_noise), "model.router_jitter_noise is not supported",
                    "set router_jitter_noise = 0");
  }
}

// Files of the causal-LM class have "model." before every name but the head's, files of the bare model have not. Every
// expert has tensors of its own there: w1 its gate, w3 its up, w2 its down.
capstan::layout::FileMap Mixtral::file_map() const {
  const auto& o = *options_;
  capstan::layout::FileMap map;
  map.prefixes = {"model."};
  map.architecture = "MixtralForCausalLM";
  map.left_out = {"rope_type"};
  map.more["num_key_value_heads"] = std::to_string(o.kv_heads());
  map.more["head_dim"] = std::to_string(o.dim());
  map.ignored = {".rotary_emb.inv_freq"};
  if (o.tie_word_embeddings) map.ignored.emplace_back("lm_head.weight");
  const auto bare = [&](const std::string& name) {
    const auto& prefix = map.prefixes.front();
    return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
  };
  for (const auto& unit : build()) {
    for (const auto& weight : unit->weights()) {
      for (const auto& record : weight->records()) map.tensors[record.name].name = bare(record.name);
    }
  }
  for (std::int64_t i = 0; i < o.num_layers; ++i) {
    const auto experts = moe_name(i) + ".experts.";
    auto& gate_up = map.tensors.at(experts + "gate_up_proj");
    auto& down = map.tensors.at(experts + "down_proj");
    for (std::int64_t e = 0; e < o.num_experts; ++e) {
      for (const char* part : {".w1.weight", ".w3.weight"}) gate_up.stack.push_back(bare(cat(experts, e, part)));
      down.stack.push_back(bare(cat(experts, e, ".w2.weight")));
    }
  }
  return map;
}

}  // namespace

CAPSTAN_MODEL("mixtral", "0.1.0", "Mixtral's architecture: Llama's attention and routed experts, none dropped", Mixtral,
              MixtralOptions)

}  // namespace mixtral
