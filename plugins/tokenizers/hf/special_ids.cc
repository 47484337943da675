#include "special_ids.h"

#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <algorithm>

#include "json_file.h"

namespace hf {

using namespace capstan;

namespace {

using Ids = std::vector<std::int64_t>;

// An id or a list of them; files write -1 for none.
Ids ids(const JsonPart& config, const char* key, std::int64_t vocab_size) {
  if (!config.has(key)) return {};
  const auto part = config.at(key);
  Ids out;
  for (const auto& id : part.json().is_array() ? part.json() : Json::array({part.json()})) {
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

SpecialIds read_special_ids(const std::filesystem::path& folder, const FolderTokens& tokens, const TokenIds& known) {
  const JsonFile generation_file(folder, "generation_config.json");
  const JsonFile model_file(folder, "config.json");
  std::int64_t vocab_size = 0;
  for (const auto& [token, id] : known) vocab_size = std::max(vocab_size, id + 1);
  const auto named = [&](const char* name) {
    const auto* one = tokens.find(name);
    return one == nullptr ? Ids() : Ids{known.at(one->token.content)};
  };
  Diagnostics diagnostics;
  const auto generation = generation_file.part(diagnostics);
  const auto model = model_file.part(diagnostics);
  SpecialIds special;
  add_new(special.ends, named("eos_token"));
  add_new(special.ends, ids(generation, "eos_token_id", vocab_size));
  // config.json decides if the newer file has no such id.
  if (!generation.has("eos_token_id")) add_new(special.ends, ids(model, "eos_token_id", vocab_size));
  Ids pads = named("pad_token");
  add_new(pads, ids(generation, "pad_token_id", vocab_size));
  add_new(pads, ids(model, "pad_token_id", vocab_size));
  if (!pads.empty()) special.pad = pads.front();
  diagnostics.throw_if_any();
  return special;
}

}  // namespace hf
