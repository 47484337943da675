#include <capstan/base/text.h>
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/sparse_blocks_options.h>

namespace capstan::decoder {

using Sparse = SparseBlocksOptions;

std::set<std::int64_t> SparseBlocksOptions::blocks_without_experts(std::int64_t layers) const {
  std::set<std::int64_t> blocks(dense_layers.begin(), dense_layers.end());
  for (std::int64_t i = 0; i < layers; ++i) {
    if ((i + 1) % sparse_step != 0) blocks.insert(i);
  }
  return blocks;
}

void SparseBlocksOptions::mix(Spec& spec) const {
  spec.mixture = mixture();
  spec.mixture.sum_to_one = normalise_weights;
  spec.mixture.dense_blocks = blocks_without_experts(spec.num_layers);
  spec.mixture.dense_ff_dim = spec.ff_dim;
  spec.ff_dim = expert_dim;
}

void describe_sparse_blocks(config::OptionTable<SparseBlocksOptions> table) {
  table.add("expert_dim", &Sparse::expert_dim).min(1).spelling("moe_intermediate_size").doc("width of an expert");
  describe_routers(table, "num_local_experts");  // what transformers 5 writes
  table.add("normalise_weights", &Sparse::normalise_weights)
      .spelling("norm_topk_prob")
      .doc("a token's weights of its experts are divided by their sum");
  table.add("sparse_step", &Sparse::sparse_step)
      .min(1)
      .spelling("decoder_sparse_step")
      .doc("every n-th block has experts, the others a plain feed-forward layer");
  table.add("dense_layers", &Sparse::dense_layers)
      .spelling("mlp_only_layers")
      .doc("further blocks with a plain feed-forward layer, by number");
}

void check_sparse_blocks(const config::Options<SparseBlocksOptions>& options, std::int64_t layers,
                         const std::string& instead, Diagnostics& diagnostics) {
  const auto& o = *options;
  check_routers(options, diagnostics);
  for (const auto block : o.dense_layers) {
    if (block >= 0 && block < layers) continue;
    diagnostics.add(options.where(&Sparse::dense_layers),
                    cat("model.dense_layers has block ", block, ", but model.num_layers is ", layers),
                    "blocks are counted from 0");
  }
  if (static_cast<std::int64_t>(o.blocks_without_experts(layers).size()) < layers) return;
  diagnostics.add(options.where(&Sparse::sparse_step), "model.sparse_step and dense_layers leave no block any experts",
                  cat("set ", instead, ", or sparse_step = 1"));
}

config::Preset sparse_blocks_defaults(std::int64_t experts, std::int64_t per_token, std::int64_t expert_dim) {
  return {{"num_experts", experts},       {"experts_per_token", per_token}, {"expert_dim", expert_dim},
          {"normalise_weights", false},   {"sparse_step", std::int64_t{1}}, {"router_aux_loss", false},
          {"router_aux_loss_coef", 0.001}};
}

std::vector<config::FileKey> sparse_blocks_keys() {
  return own_names(
      {"expert_dim", "normalise_weights", "sparse_step", "dense_layers", "experts_per_token", "router_aux_loss"});
}

void describe_sparse_blocks_files(const SparseBlocksOptions& options, layout::FileMap& map) {
  map.more["num_experts"] = std::to_string(options.num_experts);  // transformers 5 writes num_local_experts
}

}  // namespace capstan::decoder
