#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/base/text.h>
#include <capstan/config/options.h>
#include <capstan/nn/decoder.h>
#include <capstan/nn/option_members.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

// Options that decoders with rotary attention share: Llama's, Mixtral's, Qwen's and those like them. A model's options
// derive from RotaryOptions, set defaults of their own in their constructor, and describe what they have by the
// functions below. Spellings are a config.json's.

struct RotaryOptions {
  std::int64_t vocab_size = 258;
  std::int64_t hidden_size = 128;
  std::int64_t num_layers = 2;
  std::int64_t num_heads = 4;
  std::optional<std::int64_t> num_kv_heads;
  std::optional<std::int64_t> head_dim;
  std::int64_t ff_dim = 352;
  std::int64_t seq_length = 2048;
  double rms_norm_epsilon = 1e-6;
  double rope_theta = 10000;
  std::string rope_type = "default";
  std::optional<double> rope_factor;
  double rope_low_frequency_factor = 1;
  double rope_high_frequency_factor = 4;
  std::optional<double> rope_fast_turns;
  std::optional<double> rope_slow_turns;
  std::optional<double> rope_attention_factor;
  std::int64_t rope_original_length = 8192;
  std::string activation = "silu";
  bool tie_word_embeddings = false;
  double attention_dropout = 0;
  std::optional<std::int64_t> sliding_window;
  double init_std = 0.02;

  std::int64_t kv_heads() const { return num_kv_heads.value_or(num_heads); }
  /// Of a head.
  std::int64_t dim() const { return head_dim.value_or(hidden_size / num_heads); }
  /// sliding_window, where it is shorter than seq_length. spec() does not have it: a model says which blocks use it.
  std::optional<std::int64_t> window() const {
    return sliding_window && *sliding_window < seq_length ? sliding_window : std::nullopt;
  }
  RotaryScaling scaling() const;
  /// The decoder of these sizes: RMS norms before, rotary positions, gated feed-forward layers, no biases.
  DecoderSpec spec() const;
};

/// Windows in some of the blocks, as Qwen 2 and 3 have them; a model's options derive from both.
struct WindowOptions {
  std::optional<bool> use_sliding_window;
  std::int64_t max_window_layers = 28;
  std::vector<std::string> layer_types;

  /// The blocks of `layers` that see all positions, if others have a window.
  std::set<std::int64_t> blocks_without_window(std::int64_t layers) const;
};

/// What presets of such models differ in.
struct RotarySizes {
  std::int64_t vocab, hidden, layers, heads, kv_heads, ff, length;
};
config::Preset rotary_preset(const std::string& model_type, const RotarySizes& sizes, double epsilon, double theta,
                             bool tied);

/// The routers' options of mixtures; a model's options derive from both.
struct RouterOptions {
  std::int64_t num_experts = 8;
  std::int64_t experts_per_token = 2;
  bool router_aux_loss = false;
  double router_aux_loss_coef = 0.001;

  MixtureSpec mixture() const { return {num_experts, experts_per_token, true, router_aux_loss, router_aux_loss_coef}; }
};

/// `ff` is what ff_dim is the width of.
template <class O>
void describe_rotary_sizes(config::OptionTable<O>& t, const std::string& ff) {
  add_option(t, "vocab_size", &O::vocab_size).min(1).doc("number of token ids");
  add_option(t, "hidden_size", &O::hidden_size).min(1).doc("width of the residual stream");
  add_option(t, "num_layers", &O::num_layers).min(1).max(4096).spelling("num_hidden_layers").doc("number of blocks");
  add_option(t, "num_heads", &O::num_heads).min(1).spelling("num_attention_heads").doc("query heads");
  add_option(t, "num_kv_heads", &O::num_kv_heads)
      .min(1)
      .spelling("num_key_value_heads")
      .doc("key and value heads; must divide num_heads; num_heads when not set");
  add_option(t, "head_dim", &O::head_dim)
      .min(2)
      .doc("width of a head, an even number; hidden_size / num_heads when not set");
  add_option(t, "ff_dim", &O::ff_dim).min(1).spelling("intermediate_size").doc("width of " + ff);
  add_option(t, "seq_length", &O::seq_length).min(1).spelling("max_position_embeddings").doc("the longest sequence");
}

template <class O>
void describe_rotary_positions(config::OptionTable<O>& t, std::vector<std::string> types, const std::string& doc) {
  add_option(t, "rope_theta", &O::rope_theta)
      .above(0)
      .spelling("rope_parameters.rope_theta")
      .doc("base of the rotary frequencies");
  add_option(t, "rope_type", &O::rope_type)
      .choices(std::move(types))
      .spelling("rope_scaling.rope_type")
      .spelling("rope_parameters.rope_type")
      .spelling("rope_scaling.type")
      .doc("how rotary frequencies are scaled: " + doc);
}

/// What YaRN alone has.
template <class O>
void describe_yarn(config::OptionTable<O>& t) {
  add_option(t, "rope_fast_turns", &O::rope_fast_turns)
      .above(0)
      .spelling("rope_scaling.beta_fast")
      .spelling("rope_parameters.beta_fast")
      .doc("yarn: wavelengths that turn at least this often in rope_original_length are kept; 32 when not set");
  add_option(t, "rope_slow_turns", &O::rope_slow_turns)
      .above(0)
      .spelling("rope_scaling.beta_slow")
      .spelling("rope_parameters.beta_slow")
      .doc("yarn: wavelengths that turn at most this often in rope_original_length are divided; 1 when not set");
  add_option(t, "rope_attention_factor", &O::rope_attention_factor)
      .above(0)
      .spelling("rope_scaling.attention_factor")
      .spelling("rope_parameters.attention_factor")
      .doc("yarn: what q and k are multiplied by; 0.1 ln(rope_factor) + 1 when not set");
}

/// rope_theta, and every scaling that Rotary has.
template <class O>
void describe_rotary_scaling(config::OptionTable<O>& t) {
  describe_rotary_positions(
      t, {"default", "linear", "llama3", "yarn"},
      "not; all divided by rope_factor; long wavelengths alone (Llama 3.1); the same with sharper "
      "attention (YaRN)");
  add_option(t, "rope_factor", &O::rope_factor)
      .above(0)
      .spelling("rope_scaling.factor")
      .spelling("rope_parameters.factor")
      .doc("what scaled frequencies are divided by; required by every rope_type but default");
  add_option(t, "rope_low_frequency_factor", &O::rope_low_frequency_factor)
      .above(0)
      .spelling("rope_scaling.low_freq_factor")
      .spelling("rope_parameters.low_freq_factor")
      .doc("llama3: wavelengths above rope_original_length / this are divided");
  add_option(t, "rope_high_frequency_factor", &O::rope_high_frequency_factor)
      .above(0)
      .spelling("rope_scaling.high_freq_factor")
      .spelling("rope_parameters.high_freq_factor")
      .doc("llama3: wavelengths below rope_original_length / this are kept");
  describe_yarn(t);
  add_option(t, "rope_original_length", &O::rope_original_length)
      .min(1)
      .spelling("rope_scaling.original_max_position_embeddings")
      .spelling("rope_parameters.original_max_position_embeddings")
      .doc("llama3 and yarn, which requires it: sequence length that the unscaled model was trained on");
}

/// `file_key`: what a config.json calls the number of experts, where not num_experts.
template <class O>
void describe_routers(config::OptionTable<O>& t, const std::string& file_key = {}) {
  auto experts = add_option(t, "num_experts", &O::num_experts).min(1).max(65536).doc("experts in each block");
  if (!file_key.empty()) experts.spelling(file_key);
  add_option(t, "experts_per_token", &O::experts_per_token)
      .min(1)
      .spelling("num_experts_per_tok")
      .doc("experts that compute each token; none is dropped");
  add_option(t, "router_aux_loss", &O::router_aux_loss)
      .spelling("output_router_logits")
      .doc("add the load-balancing loss of the routers, times router_aux_loss_coef, to the loss that is trained on");
  add_option(t, "router_aux_loss_coef", &O::router_aux_loss_coef).min(0).doc("weight of the load-balancing loss");
}

template <class O>
void describe_rotary_rest(config::OptionTable<O>& t) {
  add_option(t, "rms_norm_epsilon", &O::rms_norm_epsilon)
      .above(0)
      .spelling("rms_norm_eps")
      .doc("added to the mean square in norms");
  add_option(t, "activation", &O::activation).choices({"silu"}).spelling("hidden_act").doc("of the gate");
  add_option(t, "tie_word_embeddings", &O::tie_word_embeddings).doc("the head is the embedding");
  add_option(t, "attention_dropout", &O::attention_dropout)
      .min(0)
      .max(0.99)
      .doc("dropout on attention probabilities, which then take the unfused path");
  add_option(t, "init_std", &O::init_std)
      .above(0)
      .spelling("initializer_range")
      .doc("standard deviation of the initial weights");
}

/// `which`: the blocks that are limited to it.
template <class O>
void describe_window(config::OptionTable<O>& t, const std::string& which) {
  add_option(t, "sliding_window", &O::sliding_window)
      .min(1)
      .doc("a token attends to itself and the tokens before it, this many in all; " + which);
}

/// `families`: which model_type has these options.
template <class O>
void describe_windows_of_blocks(config::OptionTable<O>& t, const std::string& families) {
  add_option(t, "use_sliding_window", &O::use_sliding_window)
      .doc("whether sliding_window is in use; not set: only in a family that always uses it");
  add_option(t, "max_window_layers", &O::max_window_layers)
      .min(0)
      .doc(families + ": the first block that sliding_window limits, where layer_types is empty");
  add_option(t, "layer_types", &O::layer_types)
      .doc(families + ": \"sliding_attention\" or \"full_attention\" for each block");
}

/// Heads that do not fit hidden_size or each other.
template <class O>
void check_rotary(const config::Options<O>& options, Diagnostics& diagnostics) {
  constexpr std::int64_t widest_head = 512;  // ops::rotary's
  const O& o = *options;
  if (!o.head_dim && o.hidden_size % o.num_heads != 0) {
    diagnostics.add(where(options, &O::hidden_size),
                    cat("model.hidden_size ", o.hidden_size, " is not divisible by model.num_heads ", o.num_heads),
                    cat("use hidden_size ", (o.hidden_size / o.num_heads + 1) * o.num_heads,
                        ", another number of heads, or set head_dim"));
  } else if (o.dim() % 2 != 0 || o.dim() > widest_head) {
    diagnostics.add(o.head_dim ? where(options, &O::head_dim) : where(options, &O::hidden_size),
                    cat("attention heads of ", o.dim(), " numbers are not supported"),
                    cat("use an even head_dim of at most ", widest_head));
  }
  if (o.num_heads % o.kv_heads() != 0) {
    diagnostics.add(where(options, &O::num_kv_heads),
                    cat("model.num_heads ", o.num_heads, " is not divisible by model.num_kv_heads ", o.kv_heads()),
                    "each key head serves the same number of query heads");
  }
}

/// layer_types that do not say for each block what it is.
template <class O>
void check_layer_types(const config::Options<O>& options, Diagnostics& diagnostics) {
  const O& o = *options;
  if (o.layer_types.empty()) return;
  const auto at = where(options, &O::layer_types);
  if (static_cast<std::int64_t>(o.layer_types.size()) != o.num_layers) {
    diagnostics.add(
        at, cat("model.layer_types has ", o.layer_types.size(), " entries, but model.num_layers is ", o.num_layers),
        "give one for each block, or leave it away");
  }
  for (const auto& type : o.layer_types) {
    if (type == "full_attention" || type == "sliding_attention") continue;
    diagnostics.add(at, cat("model.layer_types has \"", type, "\""),
                    "use \"full_attention\" and \"sliding_attention\"; there are no others");
    return;
  }
}

/// Options of scalings that do not fit each other; for those that describe_rotary_scaling has described.
template <class O>
void check_rotary_scaling(const config::Options<O>& options, Diagnostics& diagnostics) {
  const O& o = *options;
  if (o.rope_type != "default" && !o.rope_factor) {
    diagnostics.add(where(options, &O::rope_type),
                    cat("model.rope_type is \"", o.rope_type, "\", but model.rope_factor is not set"),
                    "set rope_factor, 8 in Llama 3.1");
  }
  if (o.rope_type == "yarn" && !is_set(options, &O::rope_original_length)) {
    diagnostics.add(where(options, &O::rope_type),
                    "model.rope_type is \"yarn\", but model.rope_original_length is not set",
                    "set it to the sequence length that the unscaled model was trained on (max_position_embeddings "
                    "of its config.json)");
  }
  if (const auto yarn = o.scaling(); o.rope_type == "yarn" && yarn.slow_turns >= yarn.fast_turns) {
    diagnostics.add(
        where(options, &O::rope_slow_turns),
        cat("model.rope_slow_turns ", yarn.slow_turns, " is not below model.rope_fast_turns ", yarn.fast_turns),
        "use 1 and 32, as YaRN does");
  }
  if (o.rope_type == "llama3" && o.rope_low_frequency_factor >= o.rope_high_frequency_factor) {
    diagnostics.add(where(options, &O::rope_low_frequency_factor),
                    cat("model.rope_low_frequency_factor ", o.rope_low_frequency_factor,
                        " is not below model.rope_high_frequency_factor ", o.rope_high_frequency_factor),
                    "use 1 and 4, as Llama 3.1 does");
  }
}

template <class O>
void check_routers(const config::Options<O>& options, Diagnostics& diagnostics) {
  const O& o = *options;
  if (o.experts_per_token <= o.num_experts) return;
  diagnostics.add(
      where(options, &O::experts_per_token),
      cat("model.experts_per_token ", o.experts_per_token, " is more than model.num_experts ", o.num_experts),
      cat("use at most ", o.num_experts));
}

/// What a config.json of such a model says besides its options, and old files' buffers.
void describe_rotary_files(const RotaryOptions& options, layout::FileMap& map);
/// The same of the scalings' options.
void describe_rotary_scaling_files(const RotaryOptions& options, layout::FileMap& map);
/// The same of WindowOptions, where the family has them or not: what each block is, whichever options say so.
void describe_window_files(const RotaryOptions& options, const WindowOptions& windows, bool has_them,
                           layout::FileMap& map);

}  // namespace nn
CAPSTAN_END_NAMESPACE
