#include "steps_json.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "character_properties.h"
#include "characters.h"

namespace hf {

using namespace capstan;

namespace {

// {"String": "…"} or {"Regex": "…"}.
TextPattern read_text_pattern(const JsonPart& part) {
  const auto pattern = part.at("pattern");
  pattern.only({"String", "Regex"});
  if (!pattern.json().is_object()) return {};
  const char* kind = pattern.has("Regex") ? "Regex" : "String";
  auto text = pattern.text(kind);
  if (text.empty()) return pattern.refuse("is empty"), TextPattern();
  if (kind == std::string_view("String")) return TextPattern(std::move(text));
  try {
    return TextPattern(Regex(text));
  } catch (const Error& error) {
    pattern.refuse(cat("is \"", shown_pattern(text), "\": ", error.diagnostics().front().what), what_is_supported);
    return {};
  }
}

std::string read_character(const JsonPart& part, const char* key) {
  auto text = part.text(key);
  if (text.empty() || character_at(text, 0).size != text.size())
    part.at(key).refuse(cat("is \"", text, "\", which is not one character"));
  return text;
}

Behavior read_behavior(const JsonPart& part) {
  const std::unordered_map<std::string, Behavior> behaviors{{"Isolated", Behavior::isolated},
                                                            {"Removed", Behavior::removed},
                                                            {"MergedWithPrevious", Behavior::merged_with_previous},
                                                            {"MergedWithNext", Behavior::merged_with_next},
                                                            {"Contiguous", Behavior::contiguous}};
  const auto name = part.text("behavior");
  const auto found = behaviors.find(name);
  if (found != behaviors.end()) return found->second;
  part.at("behavior")
      .refuse(cat("is ", name, ", not one of Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous"));
  return Behavior::isolated;
}

// A pattern that split.h has. Of all but BLOOM's each character is part of a match.
std::optional<SplitPattern> known_pattern(const JsonPart& split, const PreStep& step) {
  const std::string gpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  const std::string begin = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})";
  const std::string end = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const std::string bloom = R"( ?[^(\s|[.,!?…。，、।۔،])]+)";
  const auto regex = split.at("pattern").at("Regex");
  const auto pattern = regex.json().is_string() ? regex.json().get<std::string>() : "";
  const bool isolated = step.behavior == Behavior::isolated;
  if (isolated && pattern == bloom) return SplitPattern::bloom;
  if (!isolated && !(step.behavior == Behavior::removed && step.invert)) return {};
  if (pattern == gpt2) return SplitPattern::gpt2;
  if (pattern == begin + "{1,3}" + end) return SplitPattern::llama3;
  if (pattern == begin + end) return SplitPattern::qwen2;
  return {};
}

// The characters of a set, each a match of its own.
std::vector<ByteRange> single_matches(std::span<const CharacterRange> set, std::string_view text) {
  std::vector<ByteRange> out;
  for (std::size_t at = 0; at < text.size();) {
    const auto character = character_at(text, at);
    if (contains(set, character.value)) out.push_back({at, at + character.size});
    at += character.size;
  }
  return out;
}

PreStep split_at(CharacterRanges set, Behavior behavior) {
  PreStep step;
  step.matches = [set = std::move(set)](std::string_view text) { return single_matches(set, text); };
  step.behavior = behavior;
  return step;
}

PreStep read_split(const JsonPart& part, bool is_mapped) {
  part.only({"type", "pattern", "behavior", "invert"});
  PreStep step;
  step.behavior = read_behavior(part);
  step.invert = part.flag("invert", false);
  const auto pattern = read_text_pattern(part);
  if (const auto known = is_mapped ? std::nullopt : known_pattern(part, step)) {
    step.kind = PreStep::Kind::known_split;
    step.known = *known;
  } else {
    step.matches = [pattern](std::string_view text) { return pattern.matches(text); };
  }
  return step;
}

PreStep read_metaspace(const JsonPart& part) {
  part.only({"type", "replacement", "prepend_scheme", "add_prefix_space", "split", "str_rep"});
  PreStep step;
  step.kind = PreStep::Kind::metaspace;
  step.replacement = read_character(part, "replacement");
  const auto scheme = part.has("prepend_scheme") ? part.text("prepend_scheme") : "always";
  if (scheme == "first") {
    step.prepend = PreStep::Prepend::first;
  } else if (scheme == "always") {
    step.prepend = PreStep::Prepend::always;
  } else if (scheme != "never") {
    part.at("prepend_scheme").refuse(cat("is ", scheme, ", not one of first, always, never"));
  }
  if (!part.flag("add_prefix_space", true) && scheme != "never")
    part.at("add_prefix_space").refuse(cat("is false, but prepend_scheme is ", scheme));
  step.cut = part.flag("split", true);
  return step;
}

void add_metaspace(const JsonPart& part, bool is_mapped, TokenizerSpec& spec) {
  auto& steps = spec.pre_tokenizer;
  const auto is_metaspace = [](const PreStep& step) { return step.kind == PreStep::Kind::metaspace; };
  if (is_mapped) part.refuse("comes after ByteLevel, which is not supported", what_is_supported);
  if (std::any_of(steps.begin(), steps.end(), is_metaspace))
    part.refuse("is a second Metaspace, which is not supported", what_is_supported);
  steps.push_back(read_metaspace(part));
  if (steps.back().prepend == PreStep::Prepend::first && !spec.normalizer.empty())
    part.refuse("prepends to the first piece after a normalizer, which is not supported", what_is_supported);
}

PreStep read_byte_level(const JsonPart& part) {
  part.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  PreStep step;
  step.kind = PreStep::Kind::byte_level;
  step.prefix_space = part.flag("add_prefix_space", true);
  step.cut = part.flag("use_regex", true);
  return step;
}

void read_template(const JsonPart& part, TokenizerSpec& spec) {
  part.only({"type", "single", "pair", "special_tokens"});
  std::vector<std::int64_t> prefix;
  std::vector<std::int64_t> suffix;
  int texts = 0;
  for (const auto& piece : part.list("single")) {
    if (piece.has("Sequence") && piece.at("Sequence").text("id") == "A") {
      ++texts;
      continue;
    }
    const auto name = piece.at("SpecialToken").text("id");
    auto& ids = texts == 0 ? prefix : suffix;
    for (const auto& id : part.at("special_tokens").at(name).list("ids")) {
      if (id.json().is_number_unsigned()) {
        ids.push_back(id.json().get<std::int64_t>());
      } else {
        id.refuse("is no id");
      }
    }
  }
  if (texts != 1)
    part.at("single").refuse(cat("holds the text ", texts, " times, which is not supported (supported: once)"));
  spec.prefix.insert(spec.prefix.begin(), prefix.begin(), prefix.end());
  spec.suffix.insert(spec.suffix.end(), suffix.begin(), suffix.end());
}

NormalizeStep read_replace(const JsonPart& part) {
  part.only({"type", "pattern", "content"});
  NormalizeStep step;
  step.kind = NormalizeStep::Kind::replace;
  step.pattern = read_text_pattern(part);
  step.content = part.text("content");
  return step;
}

// A normalizer step with nothing but its type.
std::optional<NormalizeStep::Kind> plain_normalizer(const std::string& type) {
  using Kind = NormalizeStep::Kind;
  const std::unordered_map<std::string, Kind> kinds{{"NFC", Kind::nfc},
                                                    {"NFD", Kind::nfd},
                                                    {"NFKC", Kind::nfkc},
                                                    {"NFKD", Kind::nfkd},
                                                    {"Lowercase", Kind::lowercase},
                                                    {"StripAccents", Kind::strip_accents}};
  const auto found = kinds.find(type);
  if (found == kinds.end()) return {};
  return found->second;
}

}  // namespace

const char* const what_is_supported =
    "use a byte-level or a SentencePiece-style BPE, as Llama, Qwen and Gemma have, or a tokenizer plugin, which can "
    "read any file (docs/plugins.md)";

std::string type_of(const JsonPart& part) {
  const auto& json = part.json();
  const bool named = json.is_object() && json.contains("type") && json.at("type").is_string();
  return named ? json.at("type").get<std::string>() : std::string();
}

void refuse_type(const JsonPart& part, const std::string& known) {
  const auto type = type_of(part);
  part.refuse(type.empty() ? cat("names no type (supported: ", known, ")")
                           : cat("is of type ", type, ", which is not supported (supported: ", known, ")"),
              what_is_supported);
}

void read_normalizer(const JsonPart& part, TokenizerSpec& spec) {
  const auto type = type_of(part);
  auto& steps = spec.normalizer;
  if (type == "Sequence") {
    part.only({"type", "normalizers"});
    for (const auto& step : part.list("normalizers")) read_normalizer(step, spec);
  } else if (type == "Prepend") {
    part.only({"type", "prepend"});
    steps.push_back({NormalizeStep::Kind::prepend, {}, part.text("prepend")});
  } else if (type == "Replace") {
    steps.push_back(read_replace(part));
  } else if (type == "Strip") {
    part.only({"type", "strip_left", "strip_right"});
    steps.push_back(
        {NormalizeStep::Kind::strip, {}, {}, part.flag("strip_left", true), part.flag("strip_right", true)});
  } else if (const auto kind = plain_normalizer(type)) {
    part.only({"type"});
    steps.push_back({*kind});
  } else {
    refuse_type(part, "NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace, Strip, StripAccents, Sequence");
  }
}

void read_pre_tokenizer(const JsonPart& part, TokenizerSpec& spec) {
  const auto type = type_of(part);
  auto& steps = spec.pre_tokenizer;
  const bool is_mapped =
      std::any_of(steps.begin(), steps.end(), [](const auto& step) { return step.kind == PreStep::Kind::byte_level; });
  if (type == "Sequence") {
    part.only({"type", "pretokenizers"});
    for (const auto& step : part.list("pretokenizers")) read_pre_tokenizer(step, spec);
  } else if (type == "Split") {
    steps.push_back(read_split(part, is_mapped));
  } else if (type == "Digits") {
    part.only({"type", "individual_digits"});
    steps.push_back(
        split_at(digits(), part.flag("individual_digits", false) ? Behavior::isolated : Behavior::contiguous));
  } else if (type == "Punctuation") {
    part.only({"type", "behavior"});
    steps.push_back(split_at(punctuation(), part.has("behavior") ? read_behavior(part) : Behavior::isolated));
  } else if (type == "Metaspace") {
    add_metaspace(part, is_mapped, spec);
  } else if (type == "ByteLevel") {
    if (is_mapped) part.refuse("is a second ByteLevel, which is not supported", what_is_supported);
    steps.push_back(read_byte_level(part));
  } else {
    refuse_type(part, "Split, Digits, Punctuation, ByteLevel, Metaspace, Sequence");
  }
}

void read_post_processor(const JsonPart& part, TokenizerSpec& spec) {
  const auto type = type_of(part);
  if (type == "Sequence") {
    part.only({"type", "processors"});
    for (const auto& step : part.list("processors")) read_post_processor(step, spec);
  } else if (type == "TemplateProcessing") {
    read_template(part, spec);
  } else if (type != "ByteLevel") {  // which changes only offsets
    refuse_type(part, "TemplateProcessing, ByteLevel, Sequence");
  }
}

void read_decoder(const JsonPart& part, TokenizerSpec& spec) {
  const auto type = type_of(part);
  using Kind = DecodeStep::Kind;
  auto& steps = spec.decoder;
  if (type == "Sequence") {
    part.only({"type", "decoders"});
    for (const auto& step : part.list("decoders")) read_decoder(step, spec);
  } else if (type == "ByteLevel") {
    steps.push_back({Kind::byte_level});
  } else if (type == "ByteFallback") {
    steps.push_back({Kind::byte_fallback});
  } else if (type == "Fuse") {
    steps.push_back({Kind::fuse});
  } else if (type == "Replace") {
    part.only({"type", "pattern", "content"});
    steps.push_back({Kind::replace, read_text_pattern(part), {}, part.text("content")});
  } else if (type == "Strip") {
    part.only({"type", "content", "start", "stop"});
    steps.push_back({Kind::strip, {}, read_character(part, "content"), {}, part.number("start"), part.number("stop")});
  } else if (type == "Metaspace") {
    const auto metaspace = read_metaspace(part);
    steps.push_back(
        {Kind::metaspace, {}, metaspace.replacement, {}, 0, 0, metaspace.prepend != PreStep::Prepend::never});
  } else {
    refuse_type(part, "ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip, Sequence");
  }
}

}  // namespace hf
