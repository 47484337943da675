#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/base/text.h>
#include <capstan/config/options.h>
#include <capstan/nn/decoder.h>
#include <capstan/nn/option_members.h>

#include <cstdint>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

// Options that decoders with layer norms and plain feed-forward layers share: GPT-2's, BLOOM's and those like them. A
// model's options derive from LayerNormOptions and set defaults of their own in their constructor.

struct LayerNormOptions {
  std::int64_t vocab_size = 258;
  std::int64_t hidden_size = 128;
  std::int64_t num_layers = 2;
  std::int64_t num_heads = 4;
  std::int64_t seq_length = 512;
  double dropout = 0;
  double layer_norm_epsilon = 1e-5;
  bool tie_word_embeddings = true;
  double init_std = 0.02;

  /// The decoder of these sizes: layer norms before, biases everywhere, feed-forward layers of 4 · hidden_size with the
  /// approximate GELU, names as both families have them ("h.0", "ln_f", "transformer.").
  DecoderSpec spec() const;
};

/// What a config.json calls the sizes. A name that is the option's own need not be said, and may be.
struct LayerNormSpellings {
  std::string hidden;
  std::vector<std::string> layers;
  std::vector<std::string> heads;
};

template <class O>
void describe_layer_norm_sizes(config::OptionTable<O>& t, const LayerNormSpellings& spellings) {
  add_option(t, "vocab_size", &O::vocab_size).min(1).doc("number of token ids");
  const auto spell = [](auto option, const std::string& key, const std::vector<std::string>& names) {
    for (const auto& name : names) {
      if (!name.empty() && name != key) option.spelling(name);
    }
  };
  spell(add_option(t, "hidden_size", &O::hidden_size).min(1).doc("width of the residual stream"), "hidden_size",
        {spellings.hidden});
  spell(add_option(t, "num_layers", &O::num_layers).min(1).max(4096).doc("number of blocks"), "num_layers",
        spellings.layers);
  spell(add_option(t, "num_heads", &O::num_heads).min(1).doc("attention heads; must divide hidden_size"), "num_heads",
        spellings.heads);
}

template <class O>
void describe_layer_norm_rest(config::OptionTable<O>& t) {
  add_option(t, "layer_norm_epsilon", &O::layer_norm_epsilon).above(0).doc("added to the variance in layer norms");
  add_option(t, "tie_word_embeddings", &O::tie_word_embeddings).doc("the head is the embedding");
  add_option(t, "init_std", &O::init_std)
      .above(0)
      .spelling("initializer_range")
      .doc("standard deviation of the initial weights");
}

template <class O>
void check_heads(const config::Options<O>& options, Diagnostics& diagnostics) {
  const O& o = *options;
  if (o.hidden_size % o.num_heads == 0) return;
  diagnostics.add(
      where(options, &O::hidden_size),
      cat("model.hidden_size ", o.hidden_size, " is not divisible by model.num_heads ", o.num_heads),
      cat("use hidden_size ", (o.hidden_size / o.num_heads + 1) * o.num_heads, " or another number of heads"));
}

}  // namespace nn
CAPSTAN_END_NAMESPACE
