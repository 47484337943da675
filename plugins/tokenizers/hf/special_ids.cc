#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/paths.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "json_part.h"
#include "tokenizer_json.h"

namespace hf {

using namespace capstan;

namespace {

using IdOf = std::function<std::int64_t(const std::string&)>;
using Ids = std::vector<std::int64_t>;

// One of the folder's files; null when it does not exist.
struct File {
  File(const std::filesystem::path& folder, const char* name) : path((folder / name).string()) {
    if (!is_there(path)) return;
    const auto text = read_file(path);
    json = parse_json<nlohmann::json>(text, "it is not JSON: ", "download it again", path);
  }
  JsonPart part(Diagnostics& diagnostics) const { return {json, "", path, diagnostics}; }
  std::string path;
  nlohmann::json json;
};

// A token as tokenizer_config.json writes it: its text, or an object with its "content".
Ids token_id(const JsonPart& config, const char* key, const IdOf& id_of) {
  if (!config.has(key)) return {};
  const auto part = config.at(key);
  const auto token = part.json().is_object() ? part.text("content") : config.text(key);
  const auto id = id_of(token);
  if (id < 0) return part.refuse(cat("is \"", token, "\", which the tokenizer does not have")), Ids();
  return {id};
}

// An id or a list of them; files write -1 for none.
Ids ids(const JsonPart& config, const char* key, std::int64_t vocab_size) {
  if (!config.has(key)) return {};
  const auto part = config.at(key);
  Ids out;
  for (const auto& id : part.json().is_array() ? part.json() : nlohmann::json::array({part.json()})) {
    if (id.is_number_integer() && id.get<std::int64_t>() < 0) continue;
    if (id.is_number_integer() && id.get<std::int64_t>() < vocab_size) {
      out.push_back(id.get<std::int64_t>());
    } else {
      part.refuse(cat("is ", id.dump(), ", the tokenizer has ", thousands(vocab_size), " ids"));
    }
  }
  return out;
}

void add_new(Ids& all, const Ids& more) {
  for (const auto id : more) {
    if (std::find(all.begin(), all.end(), id) == all.end()) all.push_back(id);
  }
}

}  // namespace

SpecialIds read_special_ids(const std::filesystem::path& folder, const IdOf& id_of, std::int64_t vocab_size) {
  const File tokenizer_file(folder, "tokenizer_config.json");
  const File generation_file(folder, "generation_config.json");
  const File model_file(folder, "config.json");
  Diagnostics diagnostics;
  const auto tokenizer = tokenizer_file.part(diagnostics);
  const auto generation = generation_file.part(diagnostics);
  const auto model = model_file.part(diagnostics);
  SpecialIds special;
  add_new(special.ends, token_id(tokenizer, "eos_token", id_of));
  add_new(special.ends, ids(generation, "eos_token_id", vocab_size));
  // config.json decides if the newer file has no such id.
  if (!generation.has("eos_token_id")) add_new(special.ends, ids(model, "eos_token_id", vocab_size));
  Ids pads = token_id(tokenizer, "pad_token", id_of);
  add_new(pads, ids(generation, "pad_token_id", vocab_size));
  add_new(pads, ids(model, "pad_token_id", vocab_size));
  if (!pads.empty()) special.pad = pads.front();
  diagnostics.throw_if_any();
  return special;
}

}  // namespace hf
