#include "hybrid_options.h"

#include <capstan/base/text.h>
#include <capstan/decoder/file_keys.h>

namespace qwen3_5 {

using capstan::cat;
using H = HybridOptions;

bool HybridOptions::attends(std::int64_t block) const {
  const auto at = static_cast<std::size_t>(block);
  if (at < layer_types.size()) return layer_types[at] == "full_attention";
  return (block + 1) % full_attention_interval == 0;
}

DeltaSizes HybridOptions::sizes() const {
  DeltaSizes made;
  made.key_heads = delta_key_heads;
  made.value_heads = delta_value_heads;
  made.key_dim = delta_key_dim;
  made.value_dim = delta_value_dim;
  made.kernel = delta_kernel;
  return made;
}

void describe_hybrid(capstan::config::OptionTable<HybridOptions> table) {
  table.add("layer_types", &H::layer_types)
      .doc(R"("linear_attention" (the gated delta rule) or "full_attention" for each block; empty: as the next says)");
  table.add("full_attention_interval", &H::full_attention_interval)
      .min(1)
      .doc("every n-th block attends, the others have the gated delta rule, where layer_types is empty");
  table.add("delta_key_heads", &H::delta_key_heads)
      .min(1)
      .spelling("linear_num_key_heads")
      .doc("heads of queries and keys of the gated delta rule");
  table.add("delta_value_heads", &H::delta_value_heads)
      .min(1)
      .spelling("linear_num_value_heads")
      .doc("heads of values, each with a state; a multiple of delta_key_heads");
  table.add("delta_key_dim", &H::delta_key_dim).min(1).spelling("linear_key_head_dim").doc("width of such a key");
  table.add("delta_value_dim", &H::delta_value_dim)
      .min(1)
      .spelling("linear_value_head_dim")
      .doc("width of such a value");
  table.add("delta_kernel", &H::delta_kernel)
      .min(2)
      .max(64)
      .spelling("linear_conv_kernel_dim")
      .doc("tokens that the convolution before the gated delta rule sees");
}

void check_hybrid(const capstan::config::Options<HybridOptions>& options, std::int64_t layers,
                  capstan::Diagnostics& diagnostics) {
  const auto& o = *options;
  if (o.delta_value_heads % o.delta_key_heads != 0) {
    diagnostics.add(options.where(&H::delta_value_heads),
                    cat("model.delta_value_heads ", o.delta_value_heads, " is not divisible by model.delta_key_heads ",
                        o.delta_key_heads),
                    "each key head serves the same number of value heads");
  }
  if (o.layer_types.empty()) return;
  const auto where = options.where(&H::layer_types);
  if (static_cast<std::int64_t>(o.layer_types.size()) != layers) {
    diagnostics.add(where,
                    cat("model.layer_types has ", o.layer_types.size(), " entries, but model.num_layers is ", layers),
                    "give one for each block, or remove it");
  }
  for (const auto& type : o.layer_types) {
    if (type == "full_attention" || type == "linear_attention") continue;
    diagnostics.add(where, cat("model.layer_types has \"", type, "\""),
                    R"(use "full_attention" and "linear_attention"; there are no others)");
    return;
  }
}

void describe_hybrid_files(const HybridOptions& options, std::int64_t layers, capstan::layout::FileMap& map) {
  map.left_out.insert(map.left_out.end(), {"layer_types", "full_attention_interval"});
  std::string types;
  for (std::int64_t i = 0; i < layers; ++i)
    types += cat(i > 0 ? ", " : "[", options.attends(i) ? "\"full_attention\"" : "\"linear_attention\"");
  map.more["layer_types"] = types + "]";
  map.kept.emplace_back("mtp.");
}

std::vector<capstan::config::FileKey> hybrid_keys() {
  using Use = capstan::config::FileKey::Use;
  auto keys = capstan::decoder::own_names(
      {"delta_key_heads", "delta_value_heads", "delta_key_dim", "delta_value_dim", "delta_kernel"});
  const std::string other = "such models are not supported: take another model";
  keys.push_back({"attn_output_gate", Use::only, other, {"true"}});
  keys.push_back({"output_gate_type", Use::only, other, {"\"swish\""}});
  keys.push_back({"mamba_ssm_dtype", Use::only, "states are float32, whatever a run computes in", {"\"float32\""}});
  keys.push_back({"mlp_only_layers", Use::only, other, {"[]"}});
  keys.push_back({"decoder_sparse_step", Use::only, other, {"1"}});
  keys.push_back({"norm_topk_prob", Use::only, "routers' weights are always divided by their sum", {"true"}});
  for (const char* name : {"mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"})
    keys.push_back({name, Use::neutral, "tensors that predict further tokens (mtp.) are kept as they are"});
  for (const char* name : {"rope_parameters.mrope_section", "rope_parameters.mrope_interleaved",
                           "rope_scaling.mrope_section", "rope_scaling.mrope_interleaved"})
    keys.push_back({name, Use::neutral, "text has the same position in all sections"});
  return keys;
}

}  // namespace qwen3_5
