#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/config/file_keys.h>
#include <capstan/config/options.h>
#include <capstan/decoder/rotary_options.h>

#include <cstdint>
#include <optional>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace decoder {

// Options of attention through latents (LatentSpec), as DeepSeek V2 and V3 have it. A model's options derive from these
// in place of RotaryOptions, whose head_dim and num_kv_heads such a model does not choose.

struct LatentOptions : RotaryOptions {
  std::optional<std::int64_t> query_rank;
  std::int64_t key_rank = 32;
  std::int64_t still_dim = 16;
  std::int64_t turned_dim = 8;
  std::int64_t value_dim = 16;
  bool interleaved = true;
  bool attention_bias = false;

  /// Makes the attention of a Spec that RotaryOptions gave such attention. rope_mscale_all sharpens all scores here, by
  /// the square of 0.1 · it · ln(rope_factor) + 1.
  void attend(Spec& spec) const;
};

void describe_latents(config::OptionTable<LatentOptions> table);
/// In place of check_rotary.
void check_latents(const config::Options<LatentOptions>& options, Diagnostics& diagnostics);
/// After describe_rotary_files and describe_rotary_scaling_files.
void describe_latent_files(const LatentOptions& options, layout::FileMap& map);
/// In place of rotary_keys.
std::vector<config::FileKey> latent_keys();

/// What presets of such models differ in; query 0: no latent of queries.
struct LatentSizes {
  std::int64_t query, key, still, turned, value;
};
config::Preset latent_preset(const LatentSizes& sizes);

}  // namespace decoder
CAPSTAN_END_NAMESPACE
