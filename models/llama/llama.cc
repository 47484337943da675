// Llama's architecture (Touvron et al. 2023, Dubey et al. 2024): RMSNorm, rotary positions, grouped-query attention,
// SwiGLU. Mistral's and Qwen 2's are the same with other options.
#include <capstan/base/text.h>
#include <capstan/nn/decoder.h>
#include <capstan/nn/rotary_options.h>

#include "units.h"

namespace llama {
namespace {

using capstan::cat;

class Llama : public nn::Model {
 public:
  explicit Llama(capstan::config::Options<LlamaOptions> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override;

  nn::ModelFacts facts() const override { return nn::decoder_facts(*options_, options_->attention_dropout); }

  std::vector<std::unique_ptr<nn::Unit>> build() const override {
    return nn::decoder_units<EmbeddingUnit, Block, Head>(*options_, "model.embed_tokens.weight");
  }

  // 6 per weight of every matrix product (head included, table not) and 12·S·heads·dim a layer for attention, halved
  // because it is causal (Chowdhery et al. 2022, appendix B, with the causal half).
  double flops_per_token(std::int64_t sequence_length) const override {
    const auto& o = *options_;
    const auto attention = 2 * o.hidden_size * (o.num_heads + o.kv_heads()) * o.dim();
    const auto matrices = o.num_layers * (attention + 3 * o.hidden_size * o.ff_dim) + o.vocab_size * o.hidden_size;
    return 6.0 * static_cast<double>(matrices) +
           6.0 * static_cast<double>(o.num_layers * o.num_heads * o.dim() * sequence_length);
  }

  capstan::layout::FileMap file_map() const override;

 private:
  void describe_config(capstan::layout::FileMap& map) const;

  capstan::config::Options<LlamaOptions> options_;
};

void Llama::check(capstan::Diagnostics& diagnostics) const {
  const auto& o = *options_;
  nn::check_rotary(options_, diagnostics);
  if (o.rope_type != "default" && !o.rope_factor) {
    diagnostics.add(options_.where(&LlamaOptions::rope_type),
                    cat("model.rope_type is \"", o.rope_type, "\", but model.rope_factor is not set"),
                    "set rope_factor, 8 in Llama 3.1");
  }
  if (o.rope_type == "llama3" && o.rope_low_frequency_factor >= o.rope_high_frequency_factor) {
    diagnostics.add(options_.where(&LlamaOptions::rope_low_frequency_factor),
                    cat("model.rope_low_frequency_factor ", o.rope_low_frequency_factor,
                        " is not below model.rope_high_frequency_factor ", o.rope_high_frequency_factor),
                    "use 1 and 4, as Llama 3.1 does");
  }
  if (o.model_type != "llama" && (o.attention_bias || o.mlp_bias)) {
    diagnostics.add(
        o.attention_bias ? options_.where(&LlamaOptions::attention_bias) : options_.where(&LlamaOptions::mlp_bias),
        cat("model.", o.attention_bias ? "attention_bias" : "mlp_bias", " is true, but ", o.model_type,
            " models have no such biases"),
        "set model_type = \"llama\", or leave it away");
  }
}

// What a config.json of the family has besides the options.
void Llama::describe_config(capstan::layout::FileMap& map) const {
  const auto& o = *options_;
  map.architecture = o.model_type == "mistral" ? "MistralForCausalLM"
                     : o.model_type == "qwen2" ? "Qwen2ForCausalLM"
                                               : "LlamaForCausalLM";
  map.more["num_key_value_heads"] = std::to_string(o.kv_heads());
  map.more["head_dim"] = std::to_string(o.dim());
  if (o.model_type != "qwen2") map.left_out.emplace_back("use_sliding_window");
  if (o.model_type != "llama") map.left_out.insert(map.left_out.end(), {"attention_bias", "mlp_bias"});
  if (!o.sliding_window && o.model_type == "llama") map.left_out.emplace_back("sliding_window");
  if (o.rope_type == "llama3") {
    // Files say how long the scaled model may be; where only a shorter length is asked for, it is not that.
    if (o.seq_length <= o.rope_original_length) {
      map.more["max_position_embeddings"] =
          std::to_string(static_cast<std::int64_t>(static_cast<double>(o.rope_original_length) * *o.rope_factor));
    }
    return;
  }
  map.left_out.insert(map.left_out.end(),
                      {"rope_low_frequency_factor", "rope_high_frequency_factor", "rope_original_length"});
  if (o.rope_type == "default") map.left_out.insert(map.left_out.end(), {"rope_type", "rope_factor"});
}

// Files of the causal-LM class have "model." before every name but the head's, files of the bare model have not. Old
// ones hold the rotary frequencies as buffers; a tied head may be there as a copy.
capstan::layout::FileMap Llama::file_map() const {
  capstan::layout::FileMap map;
  map.prefixes = {"model."};
  describe_config(map);
  map.ignored = {".rotary_emb.inv_freq"};
  if (options_->tie_word_embeddings) map.ignored.emplace_back("lm_head.weight");
  const std::string prefix = map.prefixes.front();
  for (const auto& unit : build()) {
    for (const auto& weight : unit->weights()) {
      for (const auto& record : weight->records()) {
        const auto& name = record.name;
        map.tensors[name] = {name.starts_with(prefix) ? name.substr(prefix.size()) : name, false, {}, {}};
      }
    }
  }
  return map;
}

}  // namespace

CAPSTAN_MODEL("llama", "0.1.0", "Llama's architecture (also Mistral's and Qwen 2's): RMSNorm, rotary, GQA, SwiGLU",
              Llama, LlamaOptions)

}  // namespace llama
