// Mixtral's architecture (Jiang et al. 2024): Llama's attention, and a router that sends each token to some experts.
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_options.h>
#include <capstan/model.h>

namespace mixtral {
namespace {

namespace decoder = capstan::decoder;

struct MixtralOptions : decoder::RotaryOptions, decoder::RouterOptions {
  MixtralOptions() {
    rms_norm_epsilon = 1e-5;
    rope_theta = 1e6;
  }
  std::string model_type = "mixtral";
  double router_jitter_noise = 0;

  static void describe(capstan::config::OptionTable<MixtralOptions>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

void MixtralOptions::describe(capstan::config::OptionTable<MixtralOptions>& t) {
  t.add("model_type", &MixtralOptions::model_type).choices({"mixtral"}).doc("family of the config.json");
  decoder::describe_rotary_sizes(t, "an expert");
  decoder::describe_routers(t, "num_local_experts");
  t.add("router_jitter_noise", &MixtralOptions::router_jitter_noise).min(0).max(0).doc("noise on the routers' inputs");
  decoder::describe_rotary_positions(t, {"default"}, "not");
  decoder::describe_window(t, "in all blocks");
  decoder::describe_rotary_rest(t);
}

// The published config.json files' numbers.
capstan::config::Presets MixtralOptions::presets() {
  const auto mixtral = [](const decoder::RotarySizes& sizes, double balance) {
    auto out = decoder::rotary_preset("mixtral", sizes, 1e-5, 1e6, false);
    out.insert(
        out.end(),
        {{"num_experts", std::int64_t{8}}, {"experts_per_token", std::int64_t{2}}, {"router_aux_loss_coef", balance}});
    return out;
  };
  return {{"mixtral-8x7b", mixtral({32000, 4096, 32, 32, 8, 14336, 32768}, 0.02)},
          {"mixtral-8x22b", mixtral({32000, 6144, 56, 48, 8, 16384, 65536}, 0.001)}};
}

capstan::config::Presets MixtralOptions::file_defaults() {
  return {{"mixtral", decoder::rotary_defaults({1e-5, 1e6, 131072}, {{"num_kv_heads", std::int64_t{8}},
                                                                     {"num_experts", std::int64_t{8}},
                                                                     {"experts_per_token", std::int64_t{2}},
                                                                     {"router_aux_loss", false},
                                                                     {"router_aux_loss_coef", 0.001},
                                                                     {"router_jitter_noise", 0.0}})}};
}

std::vector<capstan::config::FileKeys> MixtralOptions::file_keys() {
  return decoder::file_keys({decoder::family_keys(
      "mixtral",
      decoder::joined({decoder::own_names({"experts_per_token", "router_aux_loss"}), decoder::rotary_keys()}))});
}

class Mixtral : public decoder::Model {
 public:
  explicit Mixtral(capstan::config::Options<MixtralOptions> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override {
    decoder::check_rotary(options_, diagnostics);
    decoder::check_routers(options_, diagnostics);
  }

 protected:
  decoder::Spec spec() const override {
    auto made = options_->spec();
    made.attention.window = options_->window();
    made.mixture = options_->mixture();
    made.names.router = "block_sparse_moe.gate";
    made.names.experts = "block_sparse_moe.experts";
    made.names.expert_parts = {"w1", "w3", "w2"};
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "MixtralForCausalLM";
    map.left_out = {"rope_type"};
    decoder::describe_rotary_files(*options_, map);
  }

 private:
  capstan::config::Options<MixtralOptions> options_;
};

}  // namespace

CAPSTAN_MODEL("mixtral", "0.1.0", "Mixtral's architecture: Llama's attention and routed experts, none dropped", Mixtral,
              MixtralOptions)

}  // namespace mixtral
