#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/base/text.h>
#include <capstan/config/options.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

// Options that decoders with rotary attention share: Llama's, Mixtral's and those like them. O has the members that
// are named here, kv_heads(), dim() (of a head) and window() (of attention, where it is in use and shorter than
// seq_length). Spellings are a config.json's.

/// `ff` is what ff_dim is the width of.
template <class O>
void describe_rotary_sizes(config::OptionTable<O>& t, const std::string& ff) {
  t.add("vocab_size", &O::vocab_size).min(1).doc("number of token ids");
  t.add("hidden_size", &O::hidden_size).min(1).doc("width of the residual stream");
  t.add("num_layers", &O::num_layers).min(1).spelling("num_hidden_layers").doc("number of blocks");
  t.add("num_heads", &O::num_heads).min(1).spelling("num_attention_heads").doc("query heads");
  t.add("num_kv_heads", &O::num_kv_heads)
      .min(1)
      .spelling("num_key_value_heads")
      .doc("key and value heads; must divide num_heads; num_heads when not set");
  t.add("head_dim", &O::head_dim).min(2).doc("width of a head, an even number; hidden_size / num_heads when not set");
  t.add("ff_dim", &O::ff_dim).min(1).spelling("intermediate_size").doc("width of " + ff);
  t.add("seq_length", &O::seq_length).min(1).spelling("max_position_embeddings").doc("the longest sequence");
}

template <class O>
void describe_rotary_positions(config::OptionTable<O>& t, std::vector<std::string> types, const std::string& doc) {
  t.add("rope_theta", &O::rope_theta)
      .above(0)
      .spelling("rope_parameters.rope_theta")
      .doc("base of the rotary frequencies");
  t.add("rope_type", &O::rope_type)
      .choices(std::move(types))
      .spelling("rope_scaling.rope_type")
      .spelling("rope_parameters.rope_type")
      .spelling("rope_scaling.type")
      .doc("how rotary frequencies are scaled: " + doc);
}

template <class O>
void describe_rotary_rest(config::OptionTable<O>& t) {
  t.add("rms_norm_epsilon", &O::rms_norm_epsilon)
      .above(0)
      .spelling("rms_norm_eps")
      .doc("added to the mean square in norms");
  t.add("activation", &O::activation).choices({"silu"}).spelling("hidden_act").doc("of the gate");
  t.add("tie_word_embeddings", &O::tie_word_embeddings).doc("the head is the embedding");
  t.add("attention_dropout", &O::attention_dropout)
      .min(0)
      .max(0.99)
      .doc("dropout on attention probabilities, which then take the unfused path");
  t.add("sliding_window", &O::sliding_window)
      .min(1)
      .doc("tokens that attention looks back in a config.json; refused where it is less than seq_length");
  t.add("init_std", &O::init_std)
      .above(0)
      .spelling("initializer_range")
      .doc("standard deviation of the initial weights");
}

/// Heads that do not fit hidden_size or each other, and windows of attention.
template <class O>
void check_rotary(const config::Options<O>& options, Diagnostics& diagnostics) {
  constexpr std::int64_t widest_head = 512;  // ops::rotary's
  const O& o = *options;
  if (!o.head_dim && o.hidden_size % o.num_heads != 0) {
    diagnostics.add(options.where(&O::hidden_size),
                    cat("model.hidden_size ", o.hidden_size, " is not divisible by model.num_heads ", o.num_heads),
                    cat("use hidden_size ", (o.hidden_size / o.num_heads + 1) * o.num_heads,
                        ", another number of heads, or set head_dim"));
  } else if (o.dim() % 2 != 0 || o.dim() > widest_head) {
    diagnostics.add(o.head_dim ? options.where(&O::head_dim) : options.where(&O::hidden_size),
                    cat("attention heads of ", o.dim(), " numbers are not supported"),
                    cat("use an even head_dim of at most ", widest_head));
  }
  if (o.num_heads % o.kv_heads() != 0) {
    diagnostics.add(options.where(&O::num_kv_heads),
                    cat("model.num_heads ", o.num_heads, " is not divisible by model.num_kv_heads ", o.kv_heads()),
                    "each key head serves the same number of query heads");
  }
  if (const auto window = o.window()) {
    diagnostics.add(options.where(&O::sliding_window),
                    cat("model.sliding_window is ", *window, ": attention over a sliding window is not supported"),
                    cat("set seq_length = ", *window, " (or less): up to there the window changes nothing"));
  }
}

}  // namespace nn
CAPSTAN_END_NAMESPACE
