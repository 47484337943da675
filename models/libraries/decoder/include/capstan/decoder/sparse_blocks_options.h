#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/config/file_keys.h>
#include <capstan/config/options.h>
#include <capstan/decoder/rotary_options.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace decoder {

/// Options of Qwen's mixtures, some of whose blocks have a plain feed-forward layer, as wide as RotaryOptions::ff_dim.
/// A model's options derive from both.
struct SparseBlocksOptions : RouterOptions {
  std::int64_t expert_dim = 176;
  bool normalise_weights = false;
  std::int64_t sparse_step = 1;
  std::vector<std::int64_t> dense_layers;

  /// The blocks of `layers` with a plain feed-forward layer.
  std::set<std::int64_t> blocks_without_experts(std::int64_t layers) const;
  /// Makes the feed-forward layers of a Spec that RotaryOptions gave such mixtures.
  void mix(Spec& spec) const;
};

void describe_sparse_blocks(config::OptionTable<SparseBlocksOptions> table);
/// Numbers that do not fit each other or the `layers` of the model. `instead`: what to set for a model without experts.
void check_sparse_blocks(const config::Options<SparseBlocksOptions>& options, std::int64_t layers,
                         const std::string& instead, Diagnostics& diagnostics);
/// What transformers takes where a config.json lacks these keys.
config::Preset sparse_blocks_defaults(std::int64_t experts, std::int64_t per_token, std::int64_t expert_dim);
/// Names of these options that no config.json has.
std::vector<config::FileKey> sparse_blocks_keys();
/// What a config.json says of them for transformers 4.
void describe_sparse_blocks_files(const SparseBlocksOptions& options, layout::FileMap& map);

}  // namespace decoder
CAPSTAN_END_NAMESPACE
