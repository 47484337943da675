// OLMoE's architecture (Muennighoff et al. 2024): Llama's with norms over all of q's and k's features, and routed
// experts in every block.
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_options.h>
#include <capstan/model.h>

namespace olmoe {
namespace {

namespace decoder = capstan::decoder;

struct OlmoeOptions : decoder::RotaryOptions, decoder::RouterOptions {
  OlmoeOptions() { rms_norm_epsilon = 1e-5; }
  std::string model_type = "olmoe";
  bool normalise_weights = false;
  bool attention_bias = false;

  static void describe(capstan::config::OptionTable<OlmoeOptions>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

void OlmoeOptions::describe(capstan::config::OptionTable<OlmoeOptions>& t) {
  t.add("model_type", &OlmoeOptions::model_type).choices({"olmoe"}).doc("family of the config.json");
  decoder::describe_rotary_sizes(t, "an expert");
  decoder::describe_routers(t, "num_local_experts");  // what transformers 5 writes
  t.add("normalise_weights", &OlmoeOptions::normalise_weights)
      .spelling("norm_topk_prob")
      .doc("a token's weights of its experts are divided by their sum");
  t.add("attention_bias", &OlmoeOptions::attention_bias).doc("biases on q, k, v and the output product");
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t);
}

// The published config.json's numbers.
capstan::config::Presets OlmoeOptions::presets() {
  auto made = decoder::rotary_preset("olmoe", {50304, 2048, 16, 16, 16, 1024, 4096}, 1e-5, 1e4, false);
  made.insert(
      made.end(),
      {{"num_experts", std::int64_t{64}}, {"experts_per_token", std::int64_t{8}}, {"router_aux_loss_coef", 0.01}});
  return {{"olmoe-1b-7b", std::move(made)}};
}

capstan::config::Presets OlmoeOptions::file_defaults() {
  return {{"olmoe", decoder::rotary_defaults({.epsilon = 1e-5, .length = 4096}, {{"num_experts", std::int64_t{64}},
                                                                                 {"experts_per_token", std::int64_t{8}},
                                                                                 {"normalise_weights", false},
                                                                                 {"router_aux_loss", false},
                                                                                 {"router_aux_loss_coef", 0.01},
                                                                                 {"attention_bias", false}})}};
}

std::vector<capstan::config::FileKeys> OlmoeOptions::file_keys() {
  auto keys = decoder::own_names({"experts_per_token", "router_aux_loss", "normalise_weights"});
  keys.push_back({"clip_qkv", capstan::config::FileKey::Use::refused,
                  "models whose queries, keys and values are clipped are not supported"});
  const auto shared = decoder::rotary_keys();
  keys.insert(keys.end(), shared.begin(), shared.end());
  return decoder::file_keys({decoder::family_keys("olmoe", std::move(keys))});
}

class Olmoe : public decoder::Model {
 public:
  explicit Olmoe(capstan::config::Options<OlmoeOptions> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override {
    decoder::check_rotary(options_, diagnostics);
    decoder::check_rotary_scaling(options_, diagnostics);
    decoder::check_routers(options_, diagnostics);
    if (options_->dim() * options_->num_heads == options_->hidden_size) return;
    diagnostics.add(options_.where(&OlmoeOptions::head_dim),
                    "olmoe's norms of q and k have hidden_size elements, which num_heads x head_dim are not",
                    "remove head_dim");
  }

 protected:
  decoder::Spec spec() const override {
    auto made = options_->spec();
    made.head_norms = decoder::Spec::HeadNorms::all;
    made.qkv_bias = made.projection_bias = options_->attention_bias;
    made.mixture = options_->mixture();
    made.mixture.sum_to_one = options_->normalise_weights;
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "OlmoeForCausalLM";
    map.more["num_experts"] = std::to_string(options_->num_experts);  // which transformers 4 reads
    decoder::describe_rotary_files(*options_, map);
    decoder::describe_rotary_scaling_files(*options_, map);
  }

 private:
  capstan::config::Options<OlmoeOptions> options_;
};

}  // namespace

CAPSTAN_MODEL("olmoe", "0.1.0", "OLMoE's architecture: Llama's with norms of q and k, and routed experts", Olmoe,
              OlmoeOptions)

}  // namespace olmoe
