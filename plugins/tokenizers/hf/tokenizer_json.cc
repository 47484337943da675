#include "tokenizer_json.h"

#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "file_tables.h"
#include "json_part.h"
#include "normalize.h"
#include "steps_json.h"

namespace hf {

using namespace capstan;

namespace {

using Vocabulary = std::unordered_map<std::string, std::int32_t>;

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
std::optional<std::pair<std::string, std::string>> pair_of(const Json& merge) {
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
  part.only(names_in(tokenizer_keys(), "model."));
  if (part.has("dropout") && part.json().at("dropout") != 0)
    part.at("dropout").refuse("is set, which is not supported", "set it to null: merges are then always done");
  require_empty(part, "continuing_subword_prefix");
  require_empty(part, "end_of_word_suffix");
  spec.fuse_unknown = part.flag("fuse_unk", false);
  spec.byte_fallback = part.flag("byte_fallback", false);
  spec.ignore_merges = part.flag("ignore_merges", false);
  auto ids = read_vocabulary(part.at("vocab"), spec);
  if (part.at("vocab").json().is_object() && part.at("vocab").json().empty())
    part.at("vocab").refuse("is empty: no text has tokens then", "download the file again");
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

// A token that is looked for in normalized text is normalized too.
void check_normalized(const JsonPart& file, const TokenizerSpec& spec) {
  for (const auto& token : spec.added) {
    if (token.normalized && !token.content.empty() && normalized(spec.normalizer, token.content).empty())
      file.at("added_tokens").refuse(cat("has \"", token.content, "\", which the normalizer removes"));
  }
}

}  // namespace

TokenizerSpec parse_tokenizer(const std::string& text, const std::string& file) {
  const auto json = parse_json(text, "it is not JSON: ", "download it again", file);
  if (!json.is_object() || !json.contains("model")) {
    throw Error("it is no tokenizer.json: it has no \"model\"",
                "name the tokenizer.json that the `tokenizers` package writes, or the folder that holds one", file);
  }
  Diagnostics diagnostics;
  const JsonPart part(json, "", file, diagnostics);
  part.only(names_in(tokenizer_keys()));
  if (const auto version = part.text("version"); version != "1.0")
    part.at("version").refuse(cat("is \"", version, R"(", not "1.0")"));
  TokenizerSpec spec;
  const auto ids = read_model(part.at("model"), spec.model);
  read_added_tokens(part, ids, spec);
  if (part.has("normalizer")) read_normalizer(part.at("normalizer"), spec);
  if (diagnostics.empty()) check_normalized(part, spec);
  if (part.has("pre_tokenizer")) read_pre_tokenizer(part.at("pre_tokenizer"), spec);
  if (part.has("post_processor")) read_post_processor(part.at("post_processor"), spec);
  read_decoder(part.at("decoder"), spec);
  diagnostics.throw_if_any();
  return spec;
}

}  // namespace hf
