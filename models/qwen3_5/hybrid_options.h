#pragma once
#include <capstan/base/error.h>
#include <capstan/config/file_keys.h>
#include <capstan/config/options.h>
#include <capstan/layout/file_tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "gated_delta_net.h"

namespace qwen3_5 {

/// Which blocks attend and which have a state instead, and the sizes of the latter. A model's options derive from it.
struct HybridOptions {
  std::vector<std::string> layer_types;
  std::int64_t full_attention_interval = 4;
  std::int64_t delta_key_heads = 2;
  std::int64_t delta_value_heads = 4;
  std::int64_t delta_key_dim = 16;
  std::int64_t delta_value_dim = 16;
  std::int64_t delta_kernel = 4;

  bool attends(std::int64_t block) const;
  /// Without what other options say: hidden size, epsilon, initial values.
  DeltaSizes sizes() const;
};

void describe_hybrid(capstan::config::OptionTable<HybridOptions> table);
void check_hybrid(const capstan::config::Options<HybridOptions>& options, std::int64_t layers,
                  capstan::Diagnostics& diagnostics);
/// What each of the `layers` blocks is, whichever option says so.
void describe_hybrid_files(const HybridOptions& options, std::int64_t layers, capstan::layout::FileMap& map);
/// Names of these options that no config.json has, and further keys of such models' files.
std::vector<capstan::config::FileKey> hybrid_keys();

}  // namespace qwen3_5
