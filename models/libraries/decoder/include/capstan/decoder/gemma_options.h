#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/config/file_keys.h>
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_options.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace decoder {

// Options that the Gemma families share, from Gemma 2 on; used as RotaryOptions are.

struct GemmaOptions : RotaryOptions {
  GemmaOptions() {
    activation = "gelu_pytorch_tanh";
    tie_word_embeddings = true;
  }
  std::vector<std::string> layer_types;
  std::int64_t global_every = 2;  ///< where layer_types is empty: every so many blocks one is global
  bool attention_bias = false;
  std::int64_t query_pre_attn_scalar = 256;
  std::optional<double> logits_cap;

  /// Local blocks are limited to the window, global ones are not.
  bool is_local(std::int64_t block) const;
  /// RotaryOptions' with norms before and after each layer, whose factor is 1 + weight, scaled embeddings, a gated
  /// GELU, scores by query_pre_attn_scalar, a cap of the logits, and a window in local blocks.
  Spec spec() const;
};

/// All but rotary positions, `model_type`'s option and query_pre_attn_scalar.
void describe_gemma(config::OptionTable<GemmaOptions> table);
/// query_pre_attn_scalar, for families that have it.
void describe_query_scalar(config::OptionTable<GemmaOptions> table);
void check_gemma(const config::Options<GemmaOptions>& options, Diagnostics& diagnostics);
/// Keys of their files, besides rotary_keys().
std::vector<config::FileKey> gemma_keys();
/// What is left out of a file: `family` is as rotary_defaults' but for what all Gemmas have.
config::Preset gemma_defaults(RotaryDefaults family, config::Preset more);
config::Preset gemma_preset(const std::string& model_type, const RotarySizes& sizes, double theta, config::Preset more);
void describe_gemma_files(const GemmaOptions& options, layout::FileMap& map);

}  // namespace decoder
CAPSTAN_END_NAMESPACE
