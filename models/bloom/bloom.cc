// BLOOM's architecture (BigScience 2022): ALiBi, embedding norm, fused QKV by heads, GELU, tied head.
#include <capstan/base/text.h>
#include <capstan/nn/decoder.h>

#include "units.h"

namespace bloom {
namespace {

using capstan::cat;

class Bloom : public nn::Model {
 public:
  explicit Bloom(capstan::config::Options<BloomOptions> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override {
    const auto& o = *options_;
    if (o.hidden_size % o.num_heads != 0) {
      diagnostics.add(
          options_.where(&BloomOptions::hidden_size),
          cat("model.hidden_size ", o.hidden_size, " is not divisible by model.num_heads ", o.num_heads),
          cat("use hidden_size ", (o.hidden_size / o.num_heads + 1) * o.num_heads, " or another number of heads"));
    }
  }

  nn::ModelFacts facts() const override { return nn::decoder_facts(*options_, options_->attention_dropout); }

  std::vector<std::unique_ptr<nn::Unit>> build() const override {
    return nn::decoder_units<EmbeddingUnit, Block, Head>(*options_, "word_embeddings.weight");
  }

  // 6 per weight of every matrix product (head included, table not) and 12·S·h a layer for attention, halved because
  // it is causal (Chowdhery et al. 2022, appendix B, with the causal half).
  double flops_per_token(std::int64_t sequence_length) const override {
    const auto& o = *options_;
    const auto matrices =
        o.num_layers * (4 * o.hidden_size + 2 * o.ff()) * o.hidden_size + o.vocab_size * o.hidden_size;
    return 6.0 * static_cast<double>(matrices) +
           6.0 * static_cast<double>(o.num_layers * o.hidden_size * sequence_length);
  }

  capstan::layout::FileMap file_map() const override;

 private:
  capstan::config::Options<BloomOptions> options_;
};

// Published files were saved from the bare model, without "transformer."; those of the causal-LM class have it. QKV is
// a matrix and a vector there. A tied head may be there as a copy.
capstan::layout::FileMap Bloom::file_map() const {
  const auto h = options_->hidden_size;
  capstan::layout::FileMap map;
  map.prefixes = {"transformer."};
  map.architecture = "BloomForCausalLM";
  if (options_->tie_word_embeddings) map.ignored = {"lm_head.weight"};
  for (const auto& unit : build()) {
    for (const auto& weight : unit->weights()) {
      for (const auto& record : weight->records()) {
        auto& tensor = map.tensors[record.name];
        tensor.name = record.name;
        if (record.shape.size() == 4) tensor.file_shape = {3 * h, h};
        if (record.shape.size() == 3) tensor.file_shape = {3 * h};
      }
    }
  }
  return map;
}

}  // namespace

CAPSTAN_MODEL("bloom", "0.1.0", "BLOOM's architecture: ALiBi, embedding norm, GELU, tied head", Bloom, BloomOptions)

}  // namespace bloom
