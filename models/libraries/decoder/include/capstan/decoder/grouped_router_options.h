#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/config/file_keys.h>
#include <capstan/config/options.h>
#include <capstan/decoder/decoder.h>

#include <cstdint>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace decoder {

// Options of mixtures as DeepSeek V3 has them and GLM 4 MoE took over: sigmoid routers with a correction of their
// choice, experts in groups, experts that compute every token, plain layers in the first blocks. A model's options
// derive from these and from RotaryOptions, whose ff_dim is then the plain layers' width.

struct GroupedRouterOptions {
  std::int64_t num_experts = 8;
  std::int64_t experts_per_token = 2;
  std::int64_t expert_dim = 176;
  std::int64_t shared_experts = 1;
  std::int64_t dense_blocks = 1;
  std::int64_t expert_groups = 1;
  std::int64_t groups_per_token = 1;
  bool normalise_weights = true;
  double weights_scale = 1;
  std::int64_t prediction_layers = 0;

  /// Makes the feed-forward layers of a Spec that RotaryOptions gave such mixtures.
  void mix(Spec& spec) const;
};

void describe_grouped_routers(config::OptionTable<GroupedRouterOptions> table);
/// Numbers that do not fit each other or the `layers` of the model.
void check_grouped_routers(const config::Options<GroupedRouterOptions>& options, std::int64_t layers,
                           Diagnostics& diagnostics);
/// Layers past the last block, which predict further tokens, are kept.
void describe_grouped_files(const GroupedRouterOptions& options, std::int64_t layers, layout::FileMap& map);
/// What presets of such models differ in.
struct GroupedSizes {
  std::int64_t experts, per_token, width, dense_blocks, groups, groups_per_token;
  double scale;
};
config::Preset grouped_preset(const GroupedSizes& sizes);
/// The same for what transformers takes where a config.json lacks these keys.
config::Preset grouped_defaults(const GroupedSizes& sizes);
/// Names of these options that no config.json has, and further keys of their families' files, which say how routers
/// weigh experts (scoring_func) and choose them (topk_method).
std::vector<config::FileKey> grouped_router_keys(const std::string& scoring = "sigmoid",
                                                 const std::string& method = "noaux_tc");

}  // namespace decoder
CAPSTAN_END_NAMESPACE
