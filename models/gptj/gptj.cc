// GPT-J's architecture (Wang and Komatsuzaki 2021): attention without biases and a feed-forward layer side by side
// after one layer norm, neighbouring numbers of a part of each head turn together, a bias on the head.
#include <capstan/base/text.h>
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/layer_norm_options.h>
#include <capstan/decoder/rotary_options.h>
#include <capstan/model.h>

namespace gptj {
namespace {

namespace decoder = capstan::decoder;

struct GptJOptions : decoder::LayerNormOptions {
  GptJOptions() {
    seq_length = 2048;
    tie_word_embeddings = false;
  }
  std::string model_type = "gptj";
  std::optional<std::int64_t> ff_dim;
  std::int64_t rotary_dim = 64;
  double embedding_dropout = 0;
  double attention_dropout = 0;

  static void describe(capstan::config::OptionTable<GptJOptions>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

using O = GptJOptions;

void GptJOptions::describe(capstan::config::OptionTable<GptJOptions>& t) {
  t.add("model_type", &O::model_type).choices({"gptj"}).doc("family of the config.json");
  decoder::describe_layer_norm_sizes(t, {"n_embd", {"n_layer"}, {"n_head"}});
  t.add("ff_dim", &O::ff_dim).min(1).spelling("n_inner").doc("of the feed-forward layer; 4 x hidden_size");
  t.add("seq_length", &O::seq_length).min(1).spelling("n_positions").doc("the longest sequence");
  t.add("rotary_dim", &O::rotary_dim).min(2).doc("how many of a head's numbers turn");
  decoder::as_dropout(t.add("dropout", &O::dropout)).spelling("resid_pdrop").doc("dropout after layers");
  decoder::as_dropout(t.add("embedding_dropout", &O::embedding_dropout))
      .spelling("embd_pdrop")
      .doc("dropout after the embedding");
  decoder::as_dropout(t.add("attention_dropout", &O::attention_dropout))
      .spelling("attn_pdrop")
      .doc("dropout on attention probabilities");
  decoder::describe_layer_norm_rest(t);
}

// The published config.json's numbers.
capstan::config::Presets GptJOptions::presets() {
  return {{"gpt-j-6b", decoder::layer_norm_preset(50400, 4096, 28, 16)}};
}

capstan::config::Presets GptJOptions::file_defaults() {
  return {{"gptj", decoder::layer_norm_defaults({{"vocab_size", std::int64_t{50400}},
                                                 {"seq_length", std::int64_t{2048}},
                                                 {"rotary_dim", std::int64_t{64}},
                                                 {"embedding_dropout", 0.0},
                                                 {"tie_word_embeddings", false}})}};
}

std::vector<capstan::config::FileKeys> GptJOptions::file_keys() {
  return decoder::file_keys({decoder::family_keys(
      "gptj", decoder::joined(
                  {decoder::own_names({"hidden_size", "num_layers", "num_heads", "ff_dim", "seq_length", "dropout",
                                       "embedding_dropout", "attention_dropout", "init_std"}),
                   decoder::only_keys({"activation_function"}, "\"gelu_new\"", "other activations are not supported"),
                   decoder::neutral_keys(
                       {"rotary", "scale_attn_weights", "summary_activation", "summary_first_dropout",
                        "summary_proj_to_labels", "summary_type", "summary_use_proj", "gradient_checkpointing"},
                       "transformers does not read it in this family")}))});
}

class GptJ : public decoder::Model {
 public:
  explicit GptJ(capstan::config::Options<GptJOptions> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override {
    decoder::check_heads(options_, diagnostics);
    const auto dim = options_->hidden_size / options_->num_heads;
    if (options_->rotary_dim % 2 == 0 && options_->rotary_dim <= dim) return;
    diagnostics.add(options_.where(&O::rotary_dim),
                    capstan::cat("model.rotary_dim is ", options_->rotary_dim, " of a head's ", dim, " numbers"),
                    capstan::cat("use an even number of at most ", dim));
  }

 protected:
  decoder::Spec spec() const override {
    const auto& o = *options_;
    auto made = o.spec();
    made.ff_dim = o.ff_dim.value_or(made.ff_dim);
    made.parallel = made.one_norm = made.head_bias = true;
    made.qkv_bias = made.projection_bias = false;
    made.embedding_dropout = o.embedding_dropout;
    made.attention_dropout = o.attention_dropout;
    made.rotary.emplace(made.attention.heads.dim, 1e4, capstan::nn::RotaryScaling{},
                        capstan::nn::RotaryForm{.turned = o.rotary_dim, .interleaved = true});
    auto& names = made.names;
    names.tokens = "transformer.wte";
    names.block = "transformer.h.";
    names.attention_norm = "ln_1";
    names.qkv = {"attn.q_proj", "attn.k_proj", "attn.v_proj"};
    names.projection = "attn.out_proj";
    names.up = {"mlp.fc_in"};
    names.down = "mlp.fc_out";
    names.norm = "transformer.ln_f";
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "GPTJForCausalLM";
    map.ignored = {".attn.bias", ".attn.masked_bias", ".attn.embed_positions"};
  }

 private:
  capstan::config::Options<GptJOptions> options_;
};

}  // namespace

CAPSTAN_MODEL("gptj", "0.1.0", "GPT-J's architecture: one layer norm a block, neighbours that turn in a part of a head",
              GptJ, GptJOptions)

}  // namespace gptj
