// Rotary positions of part of a head, and scalings that more than one number says.
#include <capstan/base/text.h>
#include <capstan/decoder/rotary_options.h>

#include <cmath>
#include <utility>

namespace capstan::decoder {
namespace {

using R = RotaryOptions;
using Kind = nn::RotaryScaling::Kind;

Kind kind_of(const std::string& type) {
  if (type == "linear") return Kind::linear;
  if (type == "llama3") return Kind::llama3;
  if (type == "yarn") return Kind::yarn;
  return type == "longrope" ? Kind::longrope : Kind::none;
}

// What YaRN makes of one of its two scales.
double sharpened(double factor, double scale) { return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1; }

std::optional<double> attention_factor_of(const RotaryOptions& o) {
  const auto scale = o.rope_mscale.value_or(0), all = o.rope_mscale_all.value_or(0);
  if (o.rope_attention_factor || o.rope_type != "yarn" || scale == 0 || all == 0) return o.rope_attention_factor;
  const auto factor = o.rope_factor.value_or(1);
  return sharpened(factor, scale) / sharpened(factor, all);
}

// The longest sequence that the scaling was made for.
double longest(const RotaryOptions& o) {
  return static_cast<double>(o.rope_original_length) * o.rope_factor.value_or(1);
}

}  // namespace

std::int64_t turned_part(std::int64_t dim, double factor) {
  return static_cast<std::int64_t>(static_cast<double>(dim) * factor);
}

void check_turned_part(std::int64_t dim, double factor, const std::string& where, Diagnostics& diagnostics) {
  const auto turned = turned_part(dim, factor);
  if (turned > 0 && turned % 2 == 0) return;
  diagnostics.add(where,
                  cat("model.partial_rotary_factor ", factor, " turns ", turned, " of a head's ", dim, " numbers"),
                  "numbers turn in pairs: use a factor that makes an even number of them");
}

nn::RotaryScaling RotaryOptions::scaling() const {
  nn::RotaryScaling made;
  made.kind = kind_of(rope_type);
  made.factor = rope_factor.value_or(1);
  made.low_frequency_factor = rope_low_frequency_factor;
  made.high_frequency_factor = rope_high_frequency_factor;
  made.original_length = rope_original_length;
  made.fast_turns = rope_fast_turns.value_or(made.fast_turns);
  made.slow_turns = rope_slow_turns.value_or(made.slow_turns);
  made.whole_limits = rope_whole_limits;
  made.attention_factor = attention_factor_of(*this);
  if (made.kind != Kind::longrope) return made;
  made.divisors = seq_length > rope_original_length ? rope_long_factors : rope_short_factors;
  const auto turned = turned_part(dim(), partial_rotary_factor);
  // A model with faults is made too, so that all of them can be said.
  if (turned < 2 || 2 * static_cast<std::int64_t>(made.divisors.size()) != turned) made.kind = Kind::none;
  return made;
}

nn::Rotary RotaryOptions::rotary(nn::RotaryForm form) const {
  if (form.turned == 0) form.turned = turned_part(dim(), partial_rotary_factor);
  return {dim(), rope_theta, scaling(), form};
}

namespace {

void as_part(config::OptionBuilder option) {
  option.above(0)
      .max(1)
      .spelling("rope_parameters.partial_rotary_factor")
      .doc("the share of each head's numbers that rotary positions turn, its first ones; the others stay as they are");
}

config::OptionBuilder as_base(config::OptionBuilder option) {
  return option.above(0).spelling("rope_parameters.rope_theta").doc("base of the rotary frequencies");
}

}  // namespace

void describe_partial_rotary(config::OptionTable<RotaryOptions> table) {
  as_part(table.add("partial_rotary_factor", &R::partial_rotary_factor));
}

nn::Rotary RotaryPartOptions::rotary(std::int64_t dim) const {
  return {dim, rope_theta, {}, {.turned = turned_part(dim, partial_rotary_factor)}};
}

void describe_rotary_part(config::OptionTable<RotaryPartOptions> table) {
  as_base(table.add("rope_theta", &RotaryPartOptions::rope_theta).spelling("rotary_emb_base"));
  as_part(table.add("partial_rotary_factor", &RotaryPartOptions::partial_rotary_factor).spelling("rotary_pct"));
}

void check_rotary_part(const config::Options<RotaryPartOptions>& options, std::int64_t dim, Diagnostics& diagnostics) {
  check_turned_part(dim, options->partial_rotary_factor, options.where(&RotaryPartOptions::partial_rotary_factor),
                    diagnostics);
}

namespace {

config::OptionBuilder in_both_tables(config::OptionBuilder option, const std::string& key) {
  return option.spelling("rope_scaling." + key).spelling("rope_parameters." + key);
}

}  // namespace

void describe_longrope(config::OptionTable<RotaryOptions> table) {
  as_base(table.add("rope_theta", &R::rope_theta));
  in_both_tables(table.add("rope_type", &R::rope_type), "type")
      .spelling("rope_scaling.rope_type")
      .spelling("rope_parameters.rope_type")
      .choices({"default", "longrope"})
      .doc("how rotary frequencies are scaled: not; each divided by a number of its own (LongRoPE)");
  in_both_tables(table.add("rope_short_factors", &R::rope_short_factors), "short_factor")
      .doc("longrope: what each frequency is divided by where seq_length is at most rope_original_length");
  in_both_tables(table.add("rope_long_factors", &R::rope_long_factors), "long_factor")
      .doc("longrope: the same where seq_length is more, on all ranks and for short texts too");
  in_both_tables(table.add("rope_factor", &R::rope_factor), "factor")
      .above(0)
      .doc("longrope: how many times rope_original_length the longest sequence is; q and k grow with it");
  in_both_tables(table.add("rope_attention_factor", &R::rope_attention_factor), "attention_factor")
      .above(0)
      .doc(
          "longrope: what q and k are multiplied by; sqrt(1 + ln(rope_factor) / ln(rope_original_length)) when not "
          "set");
  in_both_tables(
      table.add("rope_original_length", &R::rope_original_length).spelling("original_max_position_embeddings"),
      "original_max_position_embeddings")
      .min(1)
      .doc("longrope: sequence length that the unscaled model was trained on");
}

namespace {

void check_factors(const config::Options<RotaryOptions>& options, Diagnostics& diagnostics) {
  const auto& o = *options;
  const auto pairs = static_cast<std::size_t>(turned_part(o.dim(), o.partial_rotary_factor) / 2);
  for (const auto& [list, at] : {std::pair(&o.rope_short_factors, options.where(&R::rope_short_factors)),
                                 std::pair(&o.rope_long_factors, options.where(&R::rope_long_factors))}) {
    if (list->size() == pairs) continue;
    diagnostics.add(at,
                    cat("model.rope_", list == &o.rope_long_factors ? "long" : "short", "_factors has ", list->size(),
                        " numbers, but ", pairs, " frequencies turn a head"),
                    "give one for each of them");
  }
}

}  // namespace

void check_longrope(const config::Options<RotaryOptions>& options, Diagnostics& diagnostics) {
  const auto& o = *options;
  if (o.rope_type != "longrope") return;
  if (!o.rope_factor) {
    diagnostics.add(options.where(&R::rope_type), "model.rope_type is \"longrope\", but model.rope_factor is not set",
                    "set it to the longest sequence divided by rope_original_length");
  } else if (static_cast<double>(o.seq_length) > longest(o) + 0.5) {
    diagnostics.add(options.where(&R::seq_length),
                    cat("model.seq_length ", o.seq_length, " is more than rope_factor x rope_original_length, ",
                        std::llround(longest(o))),
                    "use a shorter one, or a larger rope_factor with factors that were made for it");
  }
  if (o.rope_original_length == 1 && !o.rope_attention_factor) {
    diagnostics.add(options.where(&R::rope_original_length),
                    "model.rope_original_length is 1, which says no model.rope_attention_factor", "set both");
  }
  check_factors(options, diagnostics);
}

std::string rope_table(const RotaryOptions& options, bool is_scaled) {
  const bool is_llama3 = options.rope_type == "llama3", is_yarn = options.rope_type == "yarn";
  std::string text = cat(R"({"rope_theta": )", number_text(options.rope_theta), R"(, "rope_type": ")",
                         is_scaled ? options.rope_type : "default", "\"");
  const auto add = [&](bool has, const char* key, const std::optional<double>& value) {
    if (is_scaled && has && value) text += cat(", \"", key, "\": ", number_text(*value));
  };
  add(options.rope_type != "default", "factor", options.rope_factor);
  add(is_llama3, "low_freq_factor", options.rope_low_frequency_factor);
  add(is_llama3, "high_freq_factor", options.rope_high_frequency_factor);
  add(is_yarn, "beta_fast", options.rope_fast_turns);
  add(is_yarn, "beta_slow", options.rope_slow_turns);
  add(is_yarn, "attention_factor", options.rope_attention_factor);
  add(is_yarn, "mscale", options.rope_mscale);
  add(is_yarn, "mscale_all_dim", options.rope_mscale_all);
  if (is_scaled && is_yarn && !options.rope_whole_limits) text += ", \"truncate\": false";
  if (is_scaled && (is_llama3 || is_yarn))
    text += cat(", \"original_max_position_embeddings\": ", options.rope_original_length);
  return text + "}";
}

}  // namespace capstan::decoder
