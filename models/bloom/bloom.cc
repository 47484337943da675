// BLOOM's architecture (BigScience 2022): ALiBi, embedding norm, fused QKV by heads, GELU, tied head.
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/layer_norm_options.h>
#include <capstan/model.h>

#include "attention.h"

namespace bloom {
namespace {

namespace decoder = capstan::decoder;

struct BloomOptions : decoder::LayerNormOptions {
  BloomOptions() { seq_length = 2048; }
  std::string model_type = "bloom";
  double attention_dropout = 0;
  bool residual_after_norm = false;

  static void describe(capstan::config::OptionTable<BloomOptions>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

void BloomOptions::describe(capstan::config::OptionTable<BloomOptions>& t) {
  t.add("model_type", &BloomOptions::model_type).choices({"bloom"}).doc("family of the config.json");
  decoder::describe_layer_norm_sizes(t,
                                     {"n_embed", {"n_layer", "num_hidden_layers"}, {"n_head", "num_attention_heads"}});
  t.add("seq_length", &BloomOptions::seq_length)
      .min(1)
      .doc("the longest sequence; published models were trained on 2048, ALiBi itself has no limit");
  decoder::as_dropout(t.add("dropout", &BloomOptions::dropout))
      .spelling("hidden_dropout")
      .doc("dropout after attention and feed-forward");
  decoder::as_dropout(t.add("attention_dropout", &BloomOptions::attention_dropout))
      .doc("dropout on attention probabilities, which then take the unfused path");
  t.add("residual_after_norm", &BloomOptions::residual_after_norm)
      .spelling("apply_residual_connection_post_layernorm")
      .doc("residuals start after the layer norms instead of before them");
  decoder::describe_layer_norm_rest(t);
}

// The published config.json files' numbers.
capstan::config::Presets BloomOptions::presets() {
  const auto sizes = [](std::int64_t hidden, std::int64_t layers, std::int64_t heads) {
    return decoder::layer_norm_preset(250880, hidden, layers, heads);
  };
  return {{"bloom-560m", sizes(1024, 24, 16)}, {"bloom-1b1", sizes(1536, 24, 16)},
          {"bloom-1b7", sizes(2048, 24, 16)},  {"bloom-3b", sizes(2560, 30, 32)},
          {"bloom-7b1", sizes(4096, 30, 32)},  {"bloom-176b", sizes(14336, 70, 112)}};
}

capstan::config::Presets BloomOptions::file_defaults() {
  return {{"bloom", decoder::layer_norm_defaults({{"residual_after_norm", false}, {"tie_word_embeddings", true}})}};
}

std::vector<capstan::config::FileKeys> BloomOptions::file_keys() {
  auto keys = decoder::joined(
      {decoder::own_names({"num_layers", "num_heads", "dropout", "residual_after_norm", "init_std"}),
       decoder::neutral_keys({"attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion",
                              "skip_bias_add", "skip_bias_add_qkv", "offset_alibi", "n_inner"},
                             "it says how Megatron computed the published models, not what")});
  keys.push_back({"slow_but_exact",
                  capstan::config::FileKey::Use::only,
                  "transformers then leaves out the biases of products that write to the residual: set it to false",
                  {"false"}});
  return decoder::file_keys({decoder::family_keys("bloom", std::move(keys))});
}

class Bloom : public decoder::Model {
 public:
  explicit Bloom(capstan::config::Options<BloomOptions> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override { decoder::check_heads(options_, diagnostics); }

  std::vector<std::unique_ptr<capstan::nn::Unit>> build() const override {
    auto units = Model::build();
    for (const auto& unit : units) {
      unit->each<capstan::nn::Attention>([](capstan::nn::Attention& of) {
        for (auto& row : rows()) of.rows().add(std::move(row));
      });
    }
    return units;
  }

 protected:
  decoder::Spec spec() const override {
    const auto& o = *options_;
    auto made = o.spec();
    made.attention.alibi = true;
    made.residual_after_norm = o.residual_after_norm;
    made.attention_dropout = o.attention_dropout;
    auto& names = made.names;
    names.tokens = "word_embeddings";
    names.embedding_norm = "word_embeddings_layernorm";
    names.qkv = {"self_attention.query_key_value"};
    names.projection = "self_attention.dense";
    names.up = {"mlp.dense_h_to_4h"};
    names.down = "mlp.dense_4h_to_h";
    return made;
  }

  // Published files were saved from the bare model, without "transformer."; those of the causal-LM class have it.
  void describe_files(capstan::layout::FileMap& map) const override { map.architecture = "BloomForCausalLM"; }

 private:
  capstan::config::Options<BloomOptions> options_;
};

}  // namespace

CAPSTAN_MODEL("bloom", "0.1.0", "BLOOM's architecture: ALiBi, embedding norm, GELU, tied head", Bloom, BloomOptions)

}  // namespace bloom
