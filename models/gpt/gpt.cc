// GPT-2's architecture (Radford et al. 2019): learned positions, pre-norm blocks, GELU, tied head, dropout.
#include <capstan/base/text.h>
#include <capstan/nn/decoder.h>

#include "units.h"

namespace gpt {
namespace {

using capstan::cat;

class Gpt : public nn::Model {
 public:
  explicit Gpt(capstan::config::Options<GptOptions> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override {
    const auto& o = *options_;
    if (o.hidden_size % o.num_heads != 0) {
      diagnostics.add(
          options_.where(&GptOptions::hidden_size),
          cat("model.hidden_size ", o.hidden_size, " is not divisible by model.num_heads ", o.num_heads),
          cat("use hidden_size ", (o.hidden_size / o.num_heads + 1) * o.num_heads, " or another number of heads"));
    }
    if (o.scale_by_layer) {
      diagnostics.add(options_.where(&GptOptions::scale_by_layer), "model.scale_by_layer is not supported",
                      "set scale_by_layer = false");
    }
  }

  nn::ModelFacts facts() const override {
    return nn::decoder_facts(*options_, options_->attention_dropout.value_or(options_->dropout));
  }

  std::vector<std::unique_ptr<nn::Unit>> build() const override {
    return nn::decoder_units<EmbeddingUnit, Block, Head>(*options_, "wte.weight");
  }

  // 6 per weight of every matrix product (head included, tables not) and 12·S·h a layer for attention, halved
  // because it is causal (Chowdhery et al. 2022, appendix B, with the causal half).
  double flops_per_token(std::int64_t sequence_length) const override {
    const auto& o = *options_;
    const auto h = static_cast<double>(o.hidden_size);
    const double matrices = static_cast<double>(o.num_layers) * (4 * h * h + 2 * h * static_cast<double>(o.ff())) +
                            static_cast<double>(o.vocab_size) * h;
    return 6 * matrices + 6 * static_cast<double>(o.num_layers) * h * static_cast<double>(sequence_length);
  }

  capstan::layout::FileMap file_map() const override;

 private:
  capstan::config::Options<GptOptions> options_;
};

// GPT-2's files: Conv1D weights are [in, out], c_attn holds q, k, v side by side, names come with or without
// "transformer.", mask buffers and a copy of the tied head may be there.
capstan::layout::FileMap Gpt::file_map() const {
  const auto h = options_->hidden_size;
  capstan::layout::FileMap map;
  map.prefixes = {"transformer."};
  map.ignored = {".attn.bias", ".attn.masked_bias"};
  map.architecture = "GPT2LMHeadModel";
  // Not set, these two follow `dropout`, which a config.json does not know of.
  map.left_out = {"embedding_dropout", "attention_dropout"};
  map.more["embd_pdrop"] = capstan::number_text(options_->embedding_dropout.value_or(options_->dropout));
  map.more["attn_pdrop"] = capstan::number_text(options_->attention_dropout.value_or(options_->dropout));
  if (options_->tie_word_embeddings) map.ignored.emplace_back("lm_head.weight");
  const auto same = [&](const std::string& name, bool transposed) { map.tensors[name] = {name, transposed, {}, {}}; };
  if (!options_->tie_word_embeddings) same("lm_head.weight", false);
  for (const char* name : {"wte.weight", "wpe.weight", "ln_f.weight", "ln_f.bias"}) same(name, false);
  for (std::int64_t i = 0; i < options_->num_layers; ++i) {
    const std::string block = cat("h.", i, ".");
    for (const char* kind : {"weight", "bias"}) {
      const bool is_matrix = std::string_view(kind) == "weight";
      for (const char* norm : {"ln_1.", "ln_2."}) same(block + norm + kind, false);
      for (const char* layer : {"attn.c_proj.", "mlp.c_fc.", "mlp.c_proj."}) same(block + layer + kind, is_matrix);
      std::int64_t offset = 0;
      for (const char* part : {"attn.q.", "attn.k.", "attn.v."}) {
        map.tensors[block + part + kind] = {
            block + "attn.c_attn." + kind, is_matrix, capstan::layout::FusedPart{0, offset, 3 * h}, {}};
        offset += h;
      }
    }
  }
  return map;
}

}  // namespace

CAPSTAN_MODEL("gpt", "0.1.0", "GPT-2's architecture: learned positions, pre-norm, GELU, tied head, dropout", Gpt,
              GptOptions)

}  // namespace gpt
