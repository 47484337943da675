// GPT-2's architecture (Radford et al. 2019): learned positions, pre-norm blocks, GELU, tied head, dropout.
#include <capstan/base/text.h>
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/layer_norm_options.h>
#include <capstan/model.h>

#include <cmath>

namespace gpt {
namespace {

using capstan::cat;
namespace decoder = capstan::decoder;

struct GptOptions : decoder::LayerNormOptions {
  GptOptions() { dropout = 0.1; }
  std::string model_type = "gpt2";
  std::optional<std::int64_t> ff_dim;
  std::optional<double> embedding_dropout;
  std::optional<double> attention_dropout;
  std::string activation = "gelu_new";
  bool scale_by_layer = false;

  double at_embedding() const { return embedding_dropout.value_or(dropout); }
  double in_attention() const { return attention_dropout.value_or(dropout); }
  static void describe(capstan::config::OptionTable<GptOptions>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

void GptOptions::describe(capstan::config::OptionTable<GptOptions>& t) {
  t.add("model_type", &GptOptions::model_type).choices({"gpt2"}).doc("family of the config.json");
  decoder::describe_layer_norm_sizes(t,
                                     {"n_embd", {"n_layer", "num_hidden_layers"}, {"n_head", "num_attention_heads"}});
  t.add("ff_dim", &GptOptions::ff_dim)
      .min(1)
      .spelling("n_inner")
      .doc("width of the feed-forward layer; 4 x hidden_size when not set");
  t.add("seq_length", &GptOptions::seq_length)
      .min(1)
      .spelling("n_positions")
      .spelling("max_position_embeddings")
      .doc("learned positions: the longest sequence");
  t.add("dropout", &GptOptions::dropout)
      .min(0)
      .max(0.99)
      .spelling("resid_pdrop")
      .doc("dropout after attention and feed-forward");
  t.add("embedding_dropout", &GptOptions::embedding_dropout)
      .min(0)
      .max(0.99)
      .spelling("embd_pdrop")
      .doc("dropout after the embedding; `dropout` when not set");
  t.add("attention_dropout", &GptOptions::attention_dropout)
      .min(0)
      .max(0.99)
      .spelling("attn_pdrop")
      .doc("dropout on attention probabilities, which then take the unfused path; `dropout` when not set");
  t.add("activation", &GptOptions::activation)
      .choices({"gelu_new", "gelu"})
      .spelling("activation_function")
      .doc("gelu_new: the tanh approximation that GPT-2 uses; gelu: the exact one");
  t.add("scale_by_layer", &GptOptions::scale_by_layer)
      .spelling("scale_attn_by_inverse_layer_idx")
      .doc("attention scores divided by the layer's number in a config.json; only false is supported");
  decoder::describe_layer_norm_rest(t);
}

// The published config.json files' numbers.
capstan::config::Presets GptOptions::presets() {
  const auto sizes = [](std::int64_t hidden, std::int64_t layers, std::int64_t heads) {
    return capstan::config::Preset{{"vocab_size", std::int64_t{50257}},
                                   {"hidden_size", hidden},
                                   {"num_layers", layers},
                                   {"num_heads", heads},
                                   {"seq_length", std::int64_t{1024}}};
  };
  return {{"gpt2", sizes(768, 12, 12)},
          {"gpt2-medium", sizes(1024, 24, 16)},
          {"gpt2-large", sizes(1280, 36, 20)},
          {"gpt2-xl", sizes(1600, 48, 25)}};
}

capstan::config::Presets GptOptions::file_defaults() {
  return {{"gpt2",
           {{"seq_length", std::int64_t{1024}},
            {"dropout", 0.1},
            {"embedding_dropout", 0.1},
            {"attention_dropout", 0.1},
            {"activation", std::string("gelu_new")},
            {"scale_by_layer", false},
            {"layer_norm_epsilon", 1e-5},
            {"tie_word_embeddings", true},
            {"init_std", 0.02}}}};
}

std::vector<capstan::config::FileKeys> GptOptions::file_keys() {
  using Use = capstan::config::FileKey::Use;
  auto keys = decoder::own_names({"num_layers", "num_heads", "seq_length", "ff_dim", "dropout", "embedding_dropout",
                                  "attention_dropout", "activation", "scale_by_layer", "init_std"});
  keys.push_back({"scale_attn_weights", Use::only, "scores that are not scaled are not supported", {"true"}});
  keys.push_back({"reorder_and_upcast_attn", Use::neutral, "it says in what order and precision scores are computed"});
  const auto rest = decoder::neutral_keys(
      {"n_ctx", "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels",
       "summary_first_dropout", "summary_last_dropout", "hidden_dropout"},
      "transformers does not read it in a causal language model");
  keys.insert(keys.end(), rest.begin(), rest.end());
  return decoder::file_keys({decoder::family_keys("gpt2", std::move(keys))});
}

class Gpt : public decoder::Model {
 public:
  explicit Gpt(capstan::config::Options<GptOptions> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override {
    decoder::check_heads(options_, diagnostics);
    if (options_->scale_by_layer) {
      diagnostics.add(options_.where(&GptOptions::scale_by_layer), "model.scale_by_layer is not supported",
                      "set scale_by_layer = false");
    }
  }

 protected:
  decoder::Spec spec() const override {
    const auto& o = *options_;
    auto made = o.spec();
    made.ff_dim = o.ff_dim.value_or(made.ff_dim);
    made.embedding_dropout = o.at_embedding();
    made.attention_dropout = o.in_attention();
    if (o.activation == "gelu") made.mlp.activation = capstan::nn::Activation::gelu;
    made.residual_init_std = o.init_std / std::sqrt(2.0 * static_cast<double>(o.num_layers));
    auto& names = made.names;
    names.tokens = "wte";
    names.positions = "wpe";
    names.attention_norm = "ln_1";
    names.mlp_norm = "ln_2";
    names.qkv = {"attn.q", "attn.k", "attn.v"};
    names.projection = "attn.c_proj";
    names.up = {"mlp.c_fc"};
    names.down = "mlp.c_proj";
    return made;
  }

  // GPT-2's files: Conv1D weights are [in, out], c_attn holds q, k, v side by side, names come with or without
  // "transformer.", mask buffers may be there.
  void describe_files(capstan::layout::FileMap& map) const override {
    const auto& o = *options_;
    map.architecture = "GPT2LMHeadModel";
    map.ignored = {".attn.bias", ".attn.masked_bias"};
    // Not set, these two follow `dropout`, which a config.json does not know of.
    map.left_out = {"embedding_dropout", "attention_dropout"};
    map.more["embd_pdrop"] = capstan::number_text(o.at_embedding());
    map.more["attn_pdrop"] = capstan::number_text(o.in_attention());
    const std::vector<std::string> parts{".attn.q.", ".attn.k.", ".attn.v."};
    for (auto& [name, tensor] : map.tensors) {
      if (!name.starts_with("h.") || name.find(".ln_") != std::string::npos) continue;
      tensor.transposed = name.ends_with(".weight");
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const auto at = name.find(parts[i]);
        if (at == std::string::npos) continue;
        tensor.name = cat(name.substr(0, at), ".attn.c_attn.", name.substr(at + parts[i].size()));
        tensor.part = {0, static_cast<std::int64_t>(i) * o.hidden_size, 3 * o.hidden_size};
      }
    }
  }

 private:
  capstan::config::Options<GptOptions> options_;
};

}  // namespace

CAPSTAN_MODEL("gpt", "0.1.0", "GPT-2's architecture: learned positions, pre-norm, GELU, tied head, dropout", Gpt,
              GptOptions)

}  // namespace gpt
