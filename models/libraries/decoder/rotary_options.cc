#include <capstan/base/text.h>
#include <capstan/decoder/rotary_options.h>

#include <cmath>

namespace capstan::decoder {
namespace {

using R = RotaryOptions;

}  // namespace

Spec RotaryOptions::spec() const {
  Spec made;
  made.vocab_size = vocab_size;
  made.hidden_size = hidden_size;
  made.num_layers = num_layers;
  made.max_positions = seq_length;
  made.ff_dim = ff_dim;
  made.attention.heads = {num_heads, kv_heads(), dim()};
  made.norm_epsilon = rms_norm_epsilon;
  made.rotary = rotary();
  const bool turns_whole = turned_part(dim(), partial_rotary_factor) == dim();  // else Rotary multiplies the part
  if (const auto factor = scaling().score_factor(); factor != 1 && turns_whole)
    made.attention.scale = factor / std::sqrt(static_cast<double>(dim()));
  if (activation == "gelu_pytorch_tanh" || activation == "gelu_new") made.mlp.activation = nn::Activation::gelu_tanh;
  made.tied_head = tie_word_embeddings;
  made.head_values = head_values;
  made.attention_dropout = attention_dropout;
  made.init_std = init_std;
  return made;
}

void describe_rotary_sizes(config::OptionTable<RotaryOptions> table, const std::string& ff) {
  table.add("vocab_size", &R::vocab_size).min(1).doc("number of token ids");
  table.add("hidden_size", &R::hidden_size).min(1).doc("width of the residual stream");
  table.add("num_layers", &R::num_layers).min(1).max(4096).spelling("num_hidden_layers").doc("number of blocks");
  table.add("num_heads", &R::num_heads).min(1).spelling("num_attention_heads").doc("query heads");
  table.add("num_kv_heads", &R::num_kv_heads)
      .min(1)
      .spelling("num_key_value_heads")
      .doc("key and value heads; must divide num_heads; num_heads when not set");
  table.add("head_dim", &R::head_dim)
      .min(2)
      .doc("width of a head, an even number; hidden_size / num_heads when not set");
  table.add("ff_dim", &R::ff_dim).min(1).spelling("intermediate_size").doc("width of " + ff);
  table.add("seq_length", &R::seq_length).min(1).spelling("max_position_embeddings").doc("the longest sequence");
}

namespace {

// A config.json of transformers 4 has the options of scalings in one table, one of transformers 5 in another.
config::OptionBuilder spelled(config::OptionBuilder option, const std::string& key, const std::string& rope) {
  return option.spelling("rope_scaling." + key).spelling(rope + key);
}

void describe_yarn(config::OptionTable<RotaryOptions> table, const std::string& rope) {
  spelled(table.add("rope_fast_turns", &R::rope_fast_turns), "beta_fast", rope)
      .above(0)
      .doc("yarn: wavelengths that turn at least this often in rope_original_length are kept; 32 when not set");
  spelled(table.add("rope_slow_turns", &R::rope_slow_turns), "beta_slow", rope)
      .above(0)
      .doc("yarn: wavelengths that turn at most this often in rope_original_length are divided; 1 when not set");
  spelled(table.add("rope_whole_limits", &R::rope_whole_limits), "truncate", rope)
      .doc("yarn: the first and the last blended frequency are rounded to whole ones");
  spelled(table.add("rope_attention_factor", &R::rope_attention_factor), "attention_factor", rope)
      .above(0)
      .doc("yarn: what q and k are multiplied by; 0.1 ln(rope_factor) + 1 when not set, nor both of the next two");
  spelled(table.add("rope_mscale", &R::rope_mscale), "mscale", rope)
      .min(0)
      .doc("yarn: q and k are multiplied by (0.1 this ln(rope_factor) + 1) over the same of rope_mscale_all");
  spelled(table.add("rope_mscale_all", &R::rope_mscale_all), "mscale_all_dim", rope).min(0).doc("see rope_mscale");
}

}  // namespace

void describe_rotary_positions(config::OptionTable<RotaryOptions> table, std::vector<std::string> types,
                               const std::string& doc, const std::string& rope, const std::string& unscaled) {
  auto base = table.add("rope_theta", &R::rope_theta)
                  .above(0)
                  .spelling(rope + "rope_theta")
                  .doc("base of the rotary frequencies");
  if (!unscaled.empty()) base.spelling(unscaled + "rope_theta");
  spelled(table.add("rope_type", &R::rope_type), "rope_type", rope)
      .choices(std::move(types))
      .spelling("rope_scaling.type")
      .spelling(rope + "type")
      .doc("how rotary frequencies are scaled: " + doc);
}

void describe_linear_scaling(config::OptionTable<RotaryOptions> table, const std::string& rope) {
  describe_rotary_positions(table, {"default", "linear"}, "not, or all divided by rope_factor", rope);
  spelled(table.add("rope_factor", &R::rope_factor), "factor", rope)
      .above(0)
      .doc("what scaled frequencies are divided by; required by every rope_type but default");
}

void describe_rotary_scaling(config::OptionTable<RotaryOptions> table, const std::string& rope,
                             const std::string& unscaled) {
  describe_rotary_positions(table, {"default", "linear", "llama3", "yarn"},
                            "not; all divided by rope_factor; only long wavelengths (Llama 3.1); the same with sharper "
                            "attention (YaRN)",
                            rope, unscaled);
  spelled(table.add("rope_factor", &R::rope_factor), "factor", rope)
      .above(0)
      .doc("what scaled frequencies are divided by; required by every rope_type but default");
  spelled(table.add("rope_low_frequency_factor", &R::rope_low_frequency_factor), "low_freq_factor", rope)
      .above(0)
      .doc("llama3: wavelengths above rope_original_length / this are divided");
  spelled(table.add("rope_high_frequency_factor", &R::rope_high_frequency_factor), "high_freq_factor", rope)
      .above(0)
      .doc("llama3: wavelengths below rope_original_length / this are kept");
  describe_yarn(table, rope);
  spelled(table.add("rope_original_length", &R::rope_original_length), "original_max_position_embeddings", rope)
      .min(1)
      .doc("llama3 and yarn, which requires it: sequence length that the unscaled model was trained on");
}

void describe_head_values(config::OptionTable<RotaryOptions> table) {
  table.add("head_values", &R::head_values)
      .min(0)
      .max(65536)
      .doc(
          "the head gives this number of values of each position (1 for a reward, or one a class), for objectives that "
          "ask for values; it begins with random values where model.path has none; 0: the head gives words");
}

void describe_rotary_rest(config::OptionTable<RotaryOptions> table, const std::string& activation,
                          const std::string& key, const std::string& epsilon) {
  table.add("rms_norm_epsilon", &R::rms_norm_epsilon)
      .above(0)
      .spelling(epsilon)
      .doc("added to the mean square in norms");
  table.add("activation", &R::activation).choices({activation}).spelling(key).doc("of the gate");
  table.add("tie_word_embeddings", &R::tie_word_embeddings).doc("the head is the embedding");
  table.add("attention_dropout", &R::attention_dropout)
      .min(0)
      .max(0.99)
      .doc("dropout on attention probabilities, which then take the unfused path");
  table.add("init_std", &R::init_std)
      .above(0)
      .spelling("initializer_range")
      .doc("standard deviation of the initial weights");
}

void check_rotary(const config::Options<RotaryOptions>& options, Diagnostics& diagnostics) {
  constexpr std::int64_t widest_head = 512;  // ops::rotary's
  const auto& o = *options;
  if (o.partial_rotary_factor != 1)
    check_turned_part(o.dim(), o.partial_rotary_factor, options.where(&R::partial_rotary_factor), diagnostics);
  if (!o.head_dim && o.hidden_size % o.num_heads != 0) {
    diagnostics.add(options.where(&R::hidden_size),
                    cat("model.hidden_size ", o.hidden_size, " is not divisible by model.num_heads ", o.num_heads),
                    cat("use hidden_size ", (o.hidden_size / o.num_heads + 1) * o.num_heads,
                        ", another number of heads, or set head_dim"));
  } else if (o.dim() % 2 != 0 || o.dim() > widest_head) {
    diagnostics.add(o.head_dim ? options.where(&R::head_dim) : options.where(&R::hidden_size),
                    cat("attention heads of ", o.dim(), " numbers are not supported"),
                    cat("use an even head_dim of at most ", widest_head));
  }
  if (o.num_heads % o.kv_heads() != 0) {
    diagnostics.add(options.where(&R::num_kv_heads),
                    cat("model.num_heads ", o.num_heads, " is not divisible by model.num_kv_heads ", o.kv_heads()),
                    "each key head serves the same number of query heads");
  }
}

void check_rotary_scaling(const config::Options<RotaryOptions>& options, Diagnostics& diagnostics) {
  const auto& o = *options;
  if (o.rope_type != "default" && !o.rope_factor) {
    diagnostics.add(options.where(&R::rope_type),
                    cat("model.rope_type is \"", o.rope_type, "\", but model.rope_factor is not set"),
                    "set rope_factor, 8 in Llama 3.1");
  }
  if (o.rope_type == "yarn" && !options.is_set(&R::rope_original_length)) {
    diagnostics.add(options.where(&R::rope_type),
                    "model.rope_type is \"yarn\", but model.rope_original_length is not set",
                    "set it to the sequence length that the unscaled model was trained on (max_position_embeddings "
                    "of its config.json)");
  }
  if (const auto yarn = o.scaling(); o.rope_type == "yarn" && yarn.slow_turns >= yarn.fast_turns) {
    diagnostics.add(
        options.where(&R::rope_slow_turns),
        cat("model.rope_slow_turns ", yarn.slow_turns, " is not below model.rope_fast_turns ", yarn.fast_turns),
        "use 1 and 32, as YaRN does");
  }
  if (o.rope_type == "llama3" && o.rope_low_frequency_factor >= o.rope_high_frequency_factor) {
    diagnostics.add(options.where(&R::rope_low_frequency_factor),
                    cat("model.rope_low_frequency_factor ", o.rope_low_frequency_factor,
                        " is not below model.rope_high_frequency_factor ", o.rope_high_frequency_factor),
                    "use 1 and 4, as Llama 3.1 does");
  }
}

config::Preset rotary_preset(const std::string& model_type, const RotarySizes& sizes, double epsilon, double theta,
                             bool tied) {
  return {{"model_type", model_type},   {"vocab_size", sizes.vocab},  {"hidden_size", sizes.hidden},
          {"num_layers", sizes.layers}, {"num_heads", sizes.heads},   {"num_kv_heads", sizes.kv_heads},
          {"ff_dim", sizes.ff},         {"seq_length", sizes.length}, {"rms_norm_epsilon", epsilon},
          {"rope_theta", theta},        {"tie_word_embeddings", tied}};
}

void describe_rotary_files(const RotaryOptions& options, layout::FileMap& map) {
  map.ignored.emplace_back(".rotary_emb.inv_freq");
  map.more["num_key_value_heads"] = std::to_string(options.kv_heads());
  map.more["head_dim"] = std::to_string(options.dim());
}

void describe_value_files(const RotaryOptions& options, const std::string& architecture, layout::FileMap& map) {
  map.left_out.emplace_back("head_values");
  if (options.head_values == 0) return;
  map.architecture = architecture;
  std::string names, numbers;
  for (std::int64_t i = 0; i < options.head_values; ++i) {
    names += cat(i > 0 ? ", " : "", "\"", i, "\": \"LABEL_", i, "\"");
    numbers += cat(i > 0 ? ", " : "", "\"LABEL_", i, "\": ", i);
  }
  map.more["id2label"] = cat("{", names, "}");
  map.more["label2id"] = cat("{", numbers, "}");
}

namespace {

// Options that the file of such a model does not have.
std::vector<std::string> scaling_options_left_out(const RotaryOptions& options) {
  const bool is_llama3 = options.rope_type == "llama3", is_yarn = options.rope_type == "yarn";
  const bool is_longrope = options.rope_type == "longrope";
  std::vector<std::string> names;
  const auto leave_out = [&](bool condition, const std::string& name) {
    if (condition) names.push_back(name);
  };
  leave_out(!is_llama3, "rope_low_frequency_factor");
  leave_out(!is_llama3, "rope_high_frequency_factor");
  leave_out(!is_yarn || !options.rope_fast_turns, "rope_fast_turns");
  leave_out(!is_yarn || !options.rope_slow_turns, "rope_slow_turns");
  leave_out(!is_yarn || options.rope_whole_limits, "rope_whole_limits");
  leave_out(!(is_yarn || is_longrope) || !options.rope_attention_factor, "rope_attention_factor");
  leave_out(!is_yarn || !options.rope_mscale, "rope_mscale");
  leave_out(!is_yarn || !options.rope_mscale_all, "rope_mscale_all");
  leave_out(!is_longrope, "rope_short_factors");
  leave_out(!is_longrope, "rope_long_factors");
  leave_out(!is_llama3 && !is_yarn && !is_longrope, "rope_original_length");
  leave_out(options.rope_type == "default", "rope_type");
  leave_out(options.rope_type == "default" || is_longrope, "rope_factor");
  return names;
}

}  // namespace

void describe_rotary_scaling_files(const RotaryOptions& options, layout::FileMap& map) {
  const auto names = scaling_options_left_out(options);
  map.left_out.insert(map.left_out.end(), names.begin(), names.end());
  // Files say how long the scaled model may be; where only a shorter length is asked for, it is not that.
  const bool is_short = options.rope_type == "llama3" && options.seq_length <= options.rope_original_length;
  if (options.rope_type != "yarn" && options.rope_type != "longrope" && !is_short) return;
  const auto longest = static_cast<double>(options.rope_original_length) * *options.rope_factor;
  map.more["max_position_embeddings"] = std::to_string(std::llround(longest));
}

void describe_experts(config::OptionTable<RouterOptions> table, const std::string& file_key) {
  auto experts = table.add("num_experts", &RouterOptions::num_experts).min(1).max(65536).doc("experts in each block");
  if (!file_key.empty()) experts.spelling(file_key);
  table.add("experts_per_token", &RouterOptions::experts_per_token)
      .min(1)
      .spelling("num_experts_per_tok")
      .doc("experts that compute each token; none is dropped");
}

void describe_routers(config::OptionTable<RouterOptions> table, const std::string& file_key) {
  describe_experts(table, file_key);
  table.add("router_aux_loss", &RouterOptions::router_aux_loss)
      .spelling("output_router_logits")
      .doc("add the load-balancing loss of the routers, times router_aux_loss_coef, to the loss that is trained on");
  table.add("router_aux_loss_coef", &RouterOptions::router_aux_loss_coef)
      .min(0)
      .doc("weight of the load-balancing loss");
}

void check_routers(const config::Options<RouterOptions>& options, Diagnostics& diagnostics) {
  const auto& o = *options;
  if (o.experts_per_token <= o.num_experts) return;
  diagnostics.add(
      options.where(&RouterOptions::experts_per_token),
      cat("model.experts_per_token ", o.experts_per_token, " is more than model.num_experts ", o.num_experts),
      cat("use at most ", o.num_experts));
}

}  // namespace capstan::decoder
