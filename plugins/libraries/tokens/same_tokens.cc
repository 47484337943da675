#include "tokens/same_tokens.h"

#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <cstdint>
#include <filesystem>
#include <map>

namespace tokens {

using namespace capstan;

namespace {

using Tokens = std::map<std::int64_t, std::string>;

Json at(const Json& json, const char* key) { return json.contains(key) ? json.at(key) : Json(); }

// An object of ids by token, or a list of tokens with scores.
void add_vocabulary(const Json& vocabulary, Tokens& tokens) {
  std::int64_t place = 0;
  if (vocabulary.is_array()) {
    for (const auto& scored : vocabulary) {
      if (scored.is_array() && !scored.empty() && scored[0].is_string()) tokens[place] = scored[0].text();
      ++place;
    }
  }
  if (!vocabulary.is_object()) return;
  for (const auto& [token, id] : vocabulary.items()) {
    if (id.is_number_integer()) tokens[id.get<std::int64_t>()] = token;
  }
}

Tokens tokens_of(const std::string& text, const std::string& file) {
  const auto json = parse_json(text, "it is not JSON: ", "download the model's folder again", file);
  Tokens tokens;
  add_vocabulary(at(at(json, "model"), "vocab"), tokens);
  const auto added = at(json, "added_tokens");
  for (const auto& one : added) {
    const auto id = at(one, "id"), content = at(one, "content");
    if (id.is_number_integer() && content.is_string()) tokens[id.get<std::int64_t>()] = content.get<std::string>();
  }
  return tokens;
}

std::string text_of(const Tokens& tokens, std::int64_t id) {
  const auto found = tokens.find(id);
  return found == tokens.end() ? "no token" : cat("'", printable(found->second), "'");
}

}  // namespace

std::string difference(const std::string& folder, const std::string& other) {
  const auto file = std::filesystem::path(folder) / "tokenizer.json",
             others = std::filesystem::path(other) / file.filename();
  if (folder.empty() || other.empty() || !is_there(file) || !is_there(others)) return {};
  const auto text = read_file(file), others_text = read_file(others);
  if (text == others_text) return {};
  const auto ours = tokens_of(text, file.string()), theirs = tokens_of(others_text, others.string());
  for (const auto* of : {&ours, &theirs}) {
    for (const auto& [id, token] : *of) {
      if (text_of(ours, id) == text_of(theirs, id)) continue;
      return cat("id ", id, " is ", text_of(ours, id), " in ", folder, " and ", text_of(theirs, id), " in ", other);
    }
  }
  return {};
}

}  // namespace tokens
