// GPT-NeoX's architecture (Black et al. 2022), Pythia's too: attention and feed-forward layer side by side, rotary
// positions of part of each head, fused QKV by heads, layer norms, GELU.
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/layer_norm_options.h>
#include <capstan/decoder/rotary_options.h>
#include <capstan/model.h>

namespace gpt_neox {
namespace {

namespace decoder = capstan::decoder;

struct GptNeoxOptions : decoder::LayerNormOptions, decoder::RotaryPartOptions {
  GptNeoxOptions() {
    seq_length = 2048;
    tie_word_embeddings = false;
  }
  std::string model_type = "gpt_neox";
  std::optional<std::int64_t> ff_dim;
  double attention_dropout = 0;
  std::string activation = "gelu";
  bool attention_bias = true;
  bool use_parallel_residual = true;

  static void describe(capstan::config::OptionTable<GptNeoxOptions>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

using O = GptNeoxOptions;

void GptNeoxOptions::describe(capstan::config::OptionTable<GptNeoxOptions>& t) {
  t.add("model_type", &O::model_type).choices({"gpt_neox"}).doc("family of the config.json");
  decoder::describe_layer_norm_sizes(t, {"", {"num_hidden_layers"}, {"num_attention_heads"}});
  t.add("ff_dim", &O::ff_dim).min(1).spelling("intermediate_size").doc("of the feed-forward layer; 4 x hidden_size");
  t.add("seq_length", &O::seq_length).min(1).spelling("max_position_embeddings").doc("the longest sequence");
  t.add("use_parallel_residual", &O::use_parallel_residual)
      .doc("attention and feed-forward layer both read the block's input; else the second reads the first's sum");
  decoder::describe_rotary_part(t);
  t.add("attention_bias", &O::attention_bias).doc("biases on q, k, v and the output product");
  t.add("activation", &O::activation)
      .choices({"gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh"})
      .spelling("hidden_act")
      .doc("gelu: the exact one; the others: its approximation by tanh");
  decoder::as_dropout(t.add("dropout", &O::dropout))
      .spelling("hidden_dropout")
      .doc("dropout after embedding and layers");
  decoder::as_dropout(t.add("attention_dropout", &O::attention_dropout)).doc("dropout on attention probabilities");
  decoder::describe_layer_norm_rest(t, "layer_norm_eps");
}

// The published config.json files' numbers.
capstan::config::Presets GptNeoxOptions::presets() {
  const auto sizes = decoder::layer_norm_preset;
  auto largest = sizes(50432, 6144, 44, 64);
  largest.emplace_back("activation", std::string("gelu_fast"));
  return {{"pythia-70m", sizes(50304, 512, 6, 8)},     {"pythia-160m", sizes(50304, 768, 12, 12)},
          {"pythia-410m", sizes(50304, 1024, 24, 16)}, {"pythia-1b", sizes(50304, 2048, 16, 8)},
          {"pythia-1.4b", sizes(50304, 2048, 24, 16)}, {"pythia-2.8b", sizes(50304, 2560, 32, 32)},
          {"pythia-6.9b", sizes(50432, 4096, 32, 32)}, {"pythia-12b", sizes(50688, 5120, 36, 40)},
          {"gpt-neox-20b", std::move(largest)}};
}

capstan::config::Presets GptNeoxOptions::file_defaults() {
  return {{"gpt_neox", decoder::layer_norm_defaults({{"seq_length", std::int64_t{2048}},
                                                     {"ff_dim", std::int64_t{24576}},
                                                     {"use_parallel_residual", true},
                                                     {"rope_theta", 1e4},
                                                     {"partial_rotary_factor", 0.25},
                                                     {"attention_bias", true},
                                                     {"activation", std::string("gelu")},
                                                     {"tie_word_embeddings", false}})}};
}

std::vector<capstan::config::FileKeys> GptNeoxOptions::file_keys() {
  auto keys = decoder::joined({decoder::own_names({"num_layers", "num_heads", "ff_dim", "seq_length", "activation",
                                                   "dropout", "layer_norm_epsilon", "init_std"}),
                               decoder::rotary_part_keys()});
  for (const char* key : {"attention_probs_dropout_prob", "hidden_dropout_prob"})
    keys.push_back({key, capstan::config::FileKey::Use::neutral, "transformers does not read it in this family"});
  return decoder::file_keys({decoder::family_keys("gpt_neox", std::move(keys))});
}

class GptNeox : public decoder::Model {
 public:
  explicit GptNeox(capstan::config::Options<GptNeoxOptions> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override {
    decoder::check_heads(options_, diagnostics);
    decoder::check_rotary_part(options_, options_->hidden_size / options_->num_heads, diagnostics);
  }

 protected:
  decoder::Spec spec() const override {
    const auto& o = *options_;
    auto made = o.spec();
    made.ff_dim = o.ff_dim.value_or(made.ff_dim);
    made.parallel = o.use_parallel_residual;
    made.qkv_bias = made.projection_bias = o.attention_bias;
    made.embedding_dropout = o.dropout;
    made.attention_dropout = o.attention_dropout;
    if (o.activation == "gelu") made.mlp.activation = capstan::nn::Activation::gelu;
    made.rotary = o.rotary(made.attention.heads.dim);
    auto& names = made.names;
    names.tokens = "gpt_neox.embed_in";
    names.block = "gpt_neox.layers.";
    names.qkv = {"attention.query_key_value"};
    names.projection = "attention.dense";
    names.up = {"mlp.dense_h_to_4h"};
    names.down = "mlp.dense_4h_to_h";
    names.norm = "gpt_neox.final_layer_norm";
    names.head = "embed_out";
    names.prefix = "gpt_neox.";
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "GPTNeoXForCausalLM";
    map.ignored = {".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"};
  }

 private:
  capstan::config::Options<GptNeoxOptions> options_;
};

}  // namespace

CAPSTAN_MODEL("gpt_neox", "0.1.0", "GPT-NeoX's architecture (also Pythia's): parallel residuals, rotary part, GELU",
              GptNeox, GptNeoxOptions)

}  // namespace gpt_neox
