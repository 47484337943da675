#include "tokenizer/tokenizer_json.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tokenizer/characters.h"
#include "tokenizer/json_part.h"

namespace capstan::tokenizer {
namespace {

using Vocabulary = std::unordered_map<std::string, std::int32_t>;

const char* const what_is_supported =
    "use a byte-level or a SentencePiece-style BPE, as GPT-2, BLOOM, Llama and Mixtral have";

void refuse_type(const JsonPart& part, const std::string& known) {
  if (part.json().is_object() && part.has("type") && part.json().at("type").is_string()) {
    part.refuse(cat("is of type ", part.type(), ", which is not supported (supported: ", known, ")"),
                what_is_supported);
  } else {
    part.refuse(cat("names no type (supported: ", known, ")"), what_is_supported);
  }
}

// The type that a part names, or "" if it names none.
std::string type_of(const JsonPart& part) {
  const auto& json = part.json();
  const bool named = json.is_object() && json.contains("type") && json.at("type").is_string();
  return named ? json.at("type").get<std::string>() : std::string();
}

void require_empty(const JsonPart& model, const char* key) {
  if (model.has(key) && !model.text(key).empty())
    model.at(key).refuse(cat("is \"", model.text(key), "\", which is not supported"), what_is_supported);
}

Vocabulary read_vocabulary(const JsonPart& part, BpeSpec& spec) {
  Vocabulary ids;
  std::unordered_set<std::int64_t> taken;
  if (!part.json().is_object()) return part.refuse("is no object"), ids;
  for (const auto& [token, id] : part.json().items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > INT32_MAX ||
        !taken.insert(id.get<std::int64_t>()).second) {
      part.refuse(cat("gives \"", token, "\" the id ", id.dump(),
                      ", where each needs a whole number of its own, from 0 to ", INT32_MAX));
      return {};
    }
    spec.vocabulary.emplace_back(token, id.get<std::int32_t>());
    ids.emplace(token, id.get<std::int32_t>());
  }
  return ids;
}

// "a b", or ["a", "b"].
std::optional<std::pair<std::string, std::string>> pair_of(const nlohmann::json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return std::pair(merge[0].get<std::string>(), merge[1].get<std::string>());
  if (!merge.is_string()) return {};
  const auto text = merge.get<std::string>();
  const auto space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) return {};
  return std::pair(text.substr(0, space), text.substr(space + 1));
}

void read_merges(const JsonPart& part, const Vocabulary& ids, BpeSpec& spec) {
  if (!part.json().is_array()) return part.refuse("is no list");
  for (const auto& merge : part.json()) {
    if (merge.is_string() && merge.get<std::string>().starts_with("#version")) continue;
    auto pair = pair_of(merge);
    if (!pair) return part.refuse(cat("holds ", merge.dump(), ", which is no pair of tokens"));
    for (const auto& token : {pair->first, pair->second, pair->first + pair->second}) {
      if (!ids.contains(token))
        return part.refuse(cat("holds ", merge.dump(), ", but \"", token, "\" is not in model.vocab"));
    }
    spec.merges.push_back(std::move(*pair));
  }
}

Vocabulary read_model(const JsonPart& part, BpeSpec& spec) {
  // Files of 2020, such as GPT-2's, name no type.
  if (const auto type = type_of(part); type != "BPE" && !(type.empty() && part.has("vocab") && part.has("merges")))
    return refuse_type(part, "BPE"), Vocabulary();
  part.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
             "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (part.has("dropout") && part.json().at("dropout") != 0)
    part.at("dropout").refuse("is set, which is not supported", "set it to null: merges are then always done");
  require_empty(part, "continuing_subword_prefix");
  require_empty(part, "end_of_word_suffix");
  spec.fuse_unknown = part.flag("fuse_unk", false);
  spec.byte_fallback = part.flag("byte_fallback", false);
  spec.ignore_merges = part.flag("ignore_merges", false);
  auto ids = read_vocabulary(part.at("vocab"), spec);
  if (ids.empty()) return ids;  // nothing that refers to it would be found
  read_merges(part.at("merges"), ids, spec);
  if (part.has("unk_token")) {
    spec.unknown = part.text("unk_token");
    if (!ids.contains(spec.unknown))
      part.at("unk_token").refuse(cat("is \"", spec.unknown, "\", which is not in model.vocab"));
  }
  return ids;
}

void read_added_tokens(const JsonPart& file, const Vocabulary& ids, TokenizerSpec& spec) {
  auto next = static_cast<std::int32_t>(ids.size());
  std::unordered_set<std::string> seen;
  bool in_order = !ids.empty();  // cannot be checked without a vocabulary; after one wrong id all are wrong
  for (const auto& part : file.list("added_tokens")) {
    part.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    AddedToken token;
    token.content = part.text("content");
    token.id = static_cast<std::int32_t>(part.number("id"));
    token.single_word = part.flag("single_word", false);
    token.lstrip = part.flag("lstrip", false);
    token.rstrip = part.flag("rstrip", false);
    token.normalized = part.flag("normalized", true);
    token.special = part.flag("special", false);
    const auto known = ids.find(token.content);
    const auto id = known == ids.end() ? next++ : known->second;
    if (token.content.empty()) part.refuse("has no content");
    if (!seen.insert(token.content).second) part.refuse(cat("is \"", token.content, "\", which is there already"));
    if (in_order && token.id != id) {
      in_order = false;
      part.refuse(cat("gives \"", token.content, "\" the id ", token.id, ", the vocabulary makes it ", id),
                  "list added tokens by id, those after the vocabulary without a gap");
    }
    spec.added.push_back(std::move(token));
  }
  std::stable_partition(spec.added.begin(), spec.added.end(), [](const auto& token) { return token.special; });
}

// {"String": "…"}, as Replace has it.
std::string plain_pattern(const JsonPart& part) {
  const auto pattern = part.at("pattern");
  if (!pattern.has("String")) return pattern.refuse("is a regular expression, which is supported in Split only"), "";
  auto text = pattern.text("String");
  if (text.empty()) pattern.refuse("is empty");
  return text;
}

void read_normalizer(const JsonPart& part, TokenizerSpec& spec) {
  const auto type = type_of(part);
  if (type == "Sequence") {
    part.only({"type", "normalizers"});
    for (const auto& step : part.list("normalizers")) read_normalizer(step, spec);
  } else if (type == "Prepend") {
    part.only({"type", "prepend"});
    spec.normalizer.push_back({NormalizeStep::Kind::prepend, "", part.text("prepend")});
  } else if (type == "Replace") {
    part.only({"type", "pattern", "content"});
    spec.normalizer.push_back({NormalizeStep::Kind::replace, plain_pattern(part), part.text("content")});
    if (spec.normalizer.back().content.empty()) part.at("content").refuse("is empty, which is not supported");
  } else {
    refuse_type(part, "Prepend, Replace, Sequence");
  }
}

SplitPattern read_pattern(const JsonPart& split) {
  const std::string gpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  const std::string llama3 =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)"
      R"(|\s+(?!\S)|\s+)";
  const std::string bloom = R"( ?[^(\s|[.,!?…。，、।۔،])]+)";
  const auto part = split.at("pattern");
  const auto pattern = part.has("Regex") ? part.text("Regex") : "";
  if (pattern == gpt2) return SplitPattern::gpt2;
  if (pattern == llama3) return SplitPattern::llama3;
  if (pattern != bloom) {
    part.refuse(cat("is ", part.json().dump(),
                    ", which is not supported (supported: the patterns of GPT-2, Llama 3 and BLOOM)"),
                what_is_supported);
  }
  return SplitPattern::bloom;
}

PreStep read_split(const JsonPart& part) {
  part.only({"type", "pattern", "behavior", "invert"});
  PreStep step;
  step.kind = PreStep::Kind::split;
  step.pattern = read_pattern(part);
  if (const auto behavior = part.text("behavior"); behavior != "Isolated") {
    part.at("behavior")
        .refuse(cat("is ", behavior, ", which is not supported (supported: Isolated)"), what_is_supported);
  }
  if (part.flag("invert", false)) part.at("invert").refuse("is true, which is not supported", what_is_supported);
  return step;
}

PreStep read_metaspace(const JsonPart& part) {
  part.only({"type", "replacement", "prepend_scheme", "add_prefix_space", "split", "str_rep"});
  PreStep step;
  step.kind = PreStep::Kind::metaspace;
  step.replacement = part.text("replacement");
  if (step.replacement.empty() || character_at(step.replacement, 0).size != step.replacement.size())
    part.at("replacement").refuse(cat("is \"", step.replacement, "\", which is not one character"));
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

void read_pre_tokenizer(const JsonPart& part, TokenizerSpec& spec) {
  const auto type = type_of(part);
  auto& steps = spec.pre_tokenizer;
  const auto has = [&](PreStep::Kind kind) {
    return std::any_of(steps.begin(), steps.end(), [&](const auto& step) { return step.kind == kind; });
  };
  if (type == "Sequence") {
    part.only({"type", "pretokenizers"});
    for (const auto& step : part.list("pretokenizers")) read_pre_tokenizer(step, spec);
    return;
  }
  if (has(PreStep::Kind::byte_level)) part.refuse("comes after ByteLevel, which is not supported", what_is_supported);
  if (type == "Split") {
    steps.push_back(read_split(part));
  } else if (type == "Metaspace") {
    if (has(PreStep::Kind::metaspace)) part.refuse("is a second Metaspace, which is not supported", what_is_supported);
    steps.push_back(read_metaspace(part));
    if (steps.back().prepend == PreStep::Prepend::first && !spec.normalizer.empty())
      part.refuse("prepends to the first piece after a normalizer, which is not supported", what_is_supported);
  } else if (type == "ByteLevel") {
    part.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    PreStep step;
    step.kind = PreStep::Kind::byte_level;
    step.prefix_space = part.flag("add_prefix_space", true);
    step.cut = part.flag("use_regex", true);
    steps.push_back(step);
  } else {
    refuse_type(part, "Split, ByteLevel, Metaspace, Sequence");
  }
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

void read_post_processor(const JsonPart& part, TokenizerSpec& spec) {
  const auto type = type_of(part);
  if (type == "Sequence") {
    part.only({"type", "processors"});
    for (const auto& step : part.list("processors")) read_post_processor(step, spec);
  } else if (type == "TemplateProcessing") {
    read_template(part, spec);
  } else if (type != "ByteLevel") {  // which changes offsets alone
    refuse_type(part, "TemplateProcessing, ByteLevel, Sequence");
  }
}

void read_decoder(const JsonPart& part, TokenizerSpec& spec) {
  const auto type = type_of(part);
  using Kind = DecodeStep::Kind;
  if (type == "Sequence") {
    part.only({"type", "decoders"});
    for (const auto& step : part.list("decoders")) read_decoder(step, spec);
  } else if (type == "ByteLevel") {
    spec.decoder.push_back({Kind::byte_level, "", "", 0, 0});
  } else if (type == "ByteFallback") {
    spec.decoder.push_back({Kind::byte_fallback, "", "", 0, 0});
  } else if (type == "Fuse") {
    spec.decoder.push_back({Kind::fuse, "", "", 0, 0});
  } else if (type == "Replace") {
    part.only({"type", "pattern", "content"});
    spec.decoder.push_back({Kind::replace, plain_pattern(part), part.text("content"), 0, 0});
  } else if (type == "Strip") {
    part.only({"type", "content", "start", "stop"});
    spec.decoder.push_back({Kind::strip, part.text("content"), "", part.number("start"), part.number("stop")});
    const auto& character = spec.decoder.back().pattern;
    if (character.empty() || character_at(character, 0).size != character.size())
      part.at("content").refuse(cat("is \"", character, "\", which is not one character"));
  } else {
    refuse_type(part, "ByteLevel, ByteFallback, Fuse, Replace, Strip, Sequence");
  }
}

}  // namespace

TokenizerSpec parse_tokenizer(const std::string& text, const std::string& file) {
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw Error(cat("it is no JSON: ", error.what()), "download it again", file);
  }
  if (!json.is_object() || !json.contains("model")) {
    throw Error("it is no tokenizer.json: it has no \"model\"",
                "name the tokenizer.json that the `tokenizers` package writes, or the folder that holds one", file);
  }
  Diagnostics diagnostics;
  const JsonPart part(json, "", file, diagnostics);
  part.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
             "decoder", "model"});
  if (const auto version = part.text("version"); version != "1.0")
    part.at("version").refuse(cat("is \"", version, R"(", not "1.0")"));
  TokenizerSpec spec;
  const auto ids = read_model(part.at("model"), spec.model);
  read_added_tokens(part, ids, spec);
  if (part.has("normalizer")) read_normalizer(part.at("normalizer"), spec);
  if (part.has("pre_tokenizer")) read_pre_tokenizer(part.at("pre_tokenizer"), spec);
  if (part.has("post_processor")) read_post_processor(part.at("post_processor"), spec);
  read_decoder(part.at("decoder"), spec);
  diagnostics.throw_if_any();
  return spec;
}

}  // namespace capstan::tokenizer
