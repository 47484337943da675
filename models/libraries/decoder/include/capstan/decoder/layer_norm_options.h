#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/config/options.h>
#include <capstan/decoder/decoder.h>

#include <cstdint>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace decoder {

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
  Spec spec() const;
};

/// What a config.json calls the sizes. A name that is the option's own need not be said, and may be.
struct LayerNormSpellings {
  std::string hidden;
  std::vector<std::string> layers;
  std::vector<std::string> heads;
};

void describe_layer_norm_sizes(config::OptionTable<LayerNormOptions> table, const LayerNormSpellings& spellings);

/// `epsilon`: what a config.json calls layer_norm_epsilon, where not that.
void describe_layer_norm_rest(config::OptionTable<LayerNormOptions> table, const std::string& epsilon = {});

/// What presets of such models differ in.
config::Preset layer_norm_preset(std::int64_t vocab, std::int64_t hidden, std::int64_t layers, std::int64_t heads);
/// What transformers takes for keys that are missing, in families without dropout.
config::Preset layer_norm_defaults(const config::Preset& more);

/// The limits of a probability of dropout.
config::OptionBuilder as_dropout(config::OptionBuilder option);

void check_heads(const config::Options<LayerNormOptions>& options, Diagnostics& diagnostics);

}  // namespace decoder
CAPSTAN_END_NAMESPACE
