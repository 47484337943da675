#include <capstan/base/text.h>
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/grouped_router_options.h>

#include <algorithm>

namespace capstan::decoder {

using Grouped = GroupedRouterOptions;

void GroupedRouterOptions::mix(Spec& spec) const {
  auto& mixture = spec.mixture;
  mixture.count = num_experts;
  mixture.per_token = experts_per_token;
  mixture.sum_to_one = normalise_weights;
  mixture.router = {true, expert_groups, groups_per_token, weights_scale, true};
  mixture.shared_dim = shared_experts * expert_dim;
  mixture.dense_ff_dim = spec.ff_dim;
  for (std::int64_t i = 0; i < std::min(dense_blocks, spec.num_layers); ++i) mixture.dense_blocks.insert(i);
  spec.ff_dim = expert_dim;
}

namespace {

void describe_choice(config::OptionTable<GroupedRouterOptions> table) {
  table.add("expert_groups", &Grouped::expert_groups)
      .min(1)
      .spelling("n_group")
      .doc("groups of equal size that a block's experts stand in");
  table.add("groups_per_token", &Grouped::groups_per_token)
      .min(1)
      .spelling("topk_group")
      .doc("groups that a token chooses its experts from: those whose two best experts have the largest sums");
  table.add("normalise_weights", &Grouped::normalise_weights)
      .spelling("norm_topk_prob")
      .doc("a token's weights of its experts are divided by their sum");
  table.add("weights_scale", &Grouped::weights_scale)
      .above(0)
      .spelling("routed_scaling_factor")
      .doc("multiplies a token's weights of its experts, after the division");
}

}  // namespace

void describe_grouped_routers(config::OptionTable<GroupedRouterOptions> table) {
  table.add("num_experts", &Grouped::num_experts)
      .min(1)
      .max(65536)
      .spelling("n_routed_experts")
      .doc("experts in each block from which routers choose");
  table.add("experts_per_token", &Grouped::experts_per_token)
      .min(1)
      .spelling("num_experts_per_tok")
      .doc("of these, experts that compute each token; none is dropped");
  table.add("expert_dim", &Grouped::expert_dim).min(1).spelling("moe_intermediate_size").doc("width of an expert");
  table.add("shared_experts", &Grouped::shared_experts)
      .min(1)
      .spelling("n_shared_experts")
      .doc("further experts in each block, which compute every token and are one layer of their widths' sum");
  table.add("dense_blocks", &Grouped::dense_blocks)
      .min(0)
      .spelling("first_k_dense_replace")
      .doc("first blocks, which have a plain feed-forward layer of width ff_dim");
  describe_choice(table);
  table.add("prediction_layers", &Grouped::prediction_layers)
      .min(0)
      .max(64)
      .spelling("num_nextn_predict_layers")
      .spelling("num_mtp_layers")
      .doc("layers past the last block that files may hold to predict further tokens: kept as they are, not trained");
}

void check_grouped_routers(const config::Options<GroupedRouterOptions>& options, std::int64_t layers,
                           Diagnostics& diagnostics) {
  const auto& o = *options;
  if (o.dense_blocks >= layers) {
    diagnostics.add(options.where(&Grouped::dense_blocks),
                    cat("model.dense_blocks ", o.dense_blocks, " leaves none of the ", layers, " blocks any experts"),
                    cat("use at most ", layers - 1));
  }
  if (o.num_experts % o.expert_groups != 0 || (o.expert_groups > 1 && o.num_experts < 2 * o.expert_groups)) {
    diagnostics.add(options.where(&Grouped::expert_groups),
                    cat("model.num_experts ", o.num_experts, " cannot stand in model.expert_groups ", o.expert_groups),
                    "groups have equal sizes, of two experts at least");
    return;
  }
  if (o.groups_per_token > o.expert_groups) {
    diagnostics.add(
        options.where(&Grouped::groups_per_token),
        cat("model.groups_per_token ", o.groups_per_token, " is more than model.expert_groups ", o.expert_groups),
        cat("use at most ", o.expert_groups));
    return;
  }
  const auto offered = o.num_experts / o.expert_groups * o.groups_per_token;
  if (o.experts_per_token <= offered) return;
  diagnostics.add(options.where(&Grouped::experts_per_token),
                  cat("model.experts_per_token ", o.experts_per_token, " is more than the ", offered,
                      " experts that a token may choose from"),
                  cat("use at most ", offered));
}

void describe_grouped_files(const GroupedRouterOptions& options, std::int64_t layers, layout::FileMap& map) {
  for (std::int64_t i = 0; i < options.prediction_layers; ++i)
    map.kept.push_back(cat("model.layers.", layers + i, "."));
}

config::Preset grouped_preset(const GroupedSizes& sizes) {
  return {{"num_experts", sizes.experts},  {"experts_per_token", sizes.per_token},
          {"expert_dim", sizes.width},     {"dense_blocks", sizes.dense_blocks},
          {"expert_groups", sizes.groups}, {"groups_per_token", sizes.groups_per_token},
          {"weights_scale", sizes.scale}};
}

config::Preset grouped_defaults(const GroupedSizes& sizes) {
  auto out = grouped_preset(sizes);
  out.insert(
      out.end(),
      {{"shared_experts", std::int64_t{1}}, {"normalise_weights", true}, {"prediction_layers", std::int64_t{1}}});
  return out;
}

std::vector<config::FileKey> grouped_router_keys(const std::string& scoring, const std::string& method) {
  using Use = config::FileKey::Use;
  auto keys =
      own_names({"num_experts", "experts_per_token", "expert_dim", "shared_experts", "dense_blocks", "expert_groups",
                 "groups_per_token", "normalise_weights", "weights_scale", "prediction_layers"});
  const std::string other = "routers of another kind are not supported: take another model";
  keys.push_back({"scoring_func", Use::only, other, {cat("\"", scoring, "\"")}});
  keys.push_back({"topk_method", Use::only, other, {cat("\"", method, "\"")}});
  keys.push_back({"moe_layer_freq", Use::only, "plain layers are in the first blocks alone", {"1"}});
  keys.push_back({"output_router_logits", Use::only, "these routers have no loss of their own", {"false"}});
  for (const char* name : {"aux_loss_alpha", "seq_aux", "router_aux_loss_coef"})
    keys.push_back({name, Use::neutral, "transformers does not read it: these routers have no loss of their own"});
  keys.push_back({"ep_size", Use::neutral, "it says how others computed the model, not what"});
  return keys;
}

}  // namespace capstan::decoder
