// Granite 3's mixtures (IBM 2024): Granite's multipliers, and experts that files hold in two tensors; in
// granitemoeshared also a layer that computes every token.
#include <capstan/base/text.h>
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/multiplier_options.h>
#include <capstan/decoder/rotary_model.h>
#include <capstan/model.h>

#include <array>

namespace granite_moe {
namespace {

using capstan::cat;
namespace decoder = capstan::decoder;

struct GraniteMoeOptions : decoder::RotaryOptions, decoder::RouterOptions, decoder::MultiplierOptions {
  std::string model_type = "granitemoe";
  std::int64_t shared_dim = 0;
  bool attention_bias = false;

  bool has_shared() const { return model_type == "granitemoeshared"; }
  static void describe(capstan::config::OptionTable<GraniteMoeOptions>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

using O = GraniteMoeOptions;

void GraniteMoeOptions::describe(capstan::config::OptionTable<GraniteMoeOptions>& t) {
  t.add("model_type", &O::model_type)
      .choices({"granitemoe", "granitemoeshared"})
      .doc("family of the config.json; granitemoeshared has a layer that computes every token");
  t.add("shared_dim", &O::shared_dim)
      .min(0)
      .spelling("shared_intermediate_size")
      .doc("granitemoeshared: width of the layer that computes every token; 0: there is none");
  decoder::describe_multipliers(t);
  t.add("attention_bias", &O::attention_bias).doc("biases on q, k, v and the output product");
  decoder::describe_rotary_sizes(t, "an expert");
  decoder::describe_routers(t, "num_local_experts");
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t);
}

// The published config.json files' numbers.
capstan::config::Presets GraniteMoeOptions::presets() {
  const auto of = [](std::int64_t hidden, std::int64_t layers, std::int64_t experts, std::int64_t length,
                     double theta) {
    auto out =
        decoder::rotary_preset("granitemoe", {49155, hidden, layers, hidden / 64, 8, 512, length}, 1e-6, theta, true);
    for (const auto& more :
         {decoder::multiplier_preset({12, 0.22, 0.015625, 6}),
          capstan::config::Preset{
              {"num_experts", experts}, {"experts_per_token", std::int64_t{8}}, {"router_aux_loss_coef", 0.0}}})
      out.insert(out.end(), more.begin(), more.end());
    return out;
  };
  return {{"granite3.0-1b-a400m", of(1024, 24, 32, 4096, 1e4)},
          {"granite3.0-3b-a800m", of(1536, 32, 40, 4096, 1e4)},
          {"granite3.1-1b-a400m", of(1024, 24, 32, 131072, 1.5e6)},
          {"granite3.1-3b-a800m", of(1536, 32, 40, 131072, 1e7)}};
}

capstan::config::Presets GraniteMoeOptions::file_defaults() {
  auto more = decoder::multiplier_defaults();
  more.insert(more.end(), {{"attention_bias", false},
                           {"num_experts", std::int64_t{8}},
                           {"experts_per_token", std::int64_t{2}},
                           {"shared_dim", std::int64_t{0}},
                           {"router_aux_loss", false},
                           {"router_aux_loss_coef", 0.001}});
  const auto both = decoder::rotary_defaults({}, more);
  return {{"granitemoe", both}, {"granitemoeshared", both}};
}

std::vector<capstan::config::FileKeys> GraniteMoeOptions::file_keys() {
  auto keys = decoder::joined(
      {decoder::own_names({"experts_per_token", "router_aux_loss", "shared_dim"}), decoder::rotary_keys()});
  return decoder::file_keys({decoder::family_keys("granitemoe", keys), decoder::family_keys("granitemoeshared", keys)});
}

class GraniteMoe : public decoder::RotaryModel<GraniteMoeOptions> {
 public:
  using RotaryModel::RotaryModel;

  void check(capstan::Diagnostics& diagnostics) const override {
    RotaryModel::check(diagnostics);
    decoder::check_routers(options_, diagnostics);
    if (options_->has_shared() || options_->shared_dim == 0) return;
    diagnostics.add(options_.where(&O::shared_dim), "model.shared_dim is set, but granitemoe has no such layer",
                    "set model_type = \"granitemoeshared\", or remove it");
  }

 protected:
  decoder::Spec spec() const override {
    const auto& o = *options_;
    auto made = o.spec();
    o.multiply(made);
    made.qkv_bias = made.projection_bias = o.attention_bias;
    made.mixture = o.mixture();
    made.mixture.shared_dim = o.shared_dim;
    made.names.router = "block_sparse_moe.router.layer";
    made.names.experts = "block_sparse_moe.experts";
    made.names.experts_together = true;
    made.names.shared = "shared_mlp";
    made.names.expert_parts = {"gate_proj", "up_proj", "output_linear"};
    made.names.fused = {{"shared_mlp.input_linear", {"shared_mlp.gate_proj", "shared_mlp.up_proj"}}};
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = options_->has_shared() ? "GraniteMoeSharedForCausalLM" : "GraniteMoeForCausalLM";
    if (!options_->has_shared()) map.left_out.emplace_back("shared_dim");
    decoder::describe_multiplier_files(*options_, options_->dim(), map);
    RotaryModel::describe_files(map);
    for (std::int64_t i = 0; i < options_->num_layers; ++i) {
      const auto block = cat("layers.", i, ".block_sparse_moe."), experts = cat("model.", block, "experts.");
      // transformers 5 gives its parameters other names than the files have.
      for (const auto& [record, file, parameter] : std::array<std::array<std::string, 3>, 3>{
               {{experts + "gate_up_proj", "input_linear.weight", "experts.gate_up_proj"},
                {experts + "down_proj", "output_linear.weight", "experts.down_proj"},
                {"model." + block + "router.layer.weight", "router.layer.weight", "router.weight"}}}) {
        map.tensors.at(record).name = block + file;
        map.tensors.at(record).parameter = block + parameter;
      }
    }
  }
};

}  // namespace

CAPSTAN_MODEL("granite_moe", "0.1.0", "Granite 3's mixtures: Granite's multipliers and routed experts", GraniteMoe,
              GraniteMoeOptions)

}  // namespace granite_moe
