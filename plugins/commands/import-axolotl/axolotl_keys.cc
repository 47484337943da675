#include "axolotl_keys.h"

#include <capstan/base/text.h>

#include <utility>

namespace import_axolotl {

using capstan::cat;
namespace config = capstan::config;

namespace {

std::string words_of(const AxolotlKey& key) {
  return key.ours.empty() ? key.words : cat(key.ours, key.words.empty() ? "" : ": ", key.words);
}

}  // namespace

Keys all_of(Take take, std::string_view names, const std::string& words) {
  Keys out;
  for (const auto& name : capstan::split(names, ' '))
    out.push_back({name, imports::JsonType::anything, take, "", words});
  return out;
}

Keys joined(const std::vector<Keys>& parts) {
  Keys all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

const Keys& axolotl_keys() {
  static const auto keys =
      joined({training_keys(), data_keys(), strategy_keys(), run_keys(), neutral_keys(), refused_keys()});
  return keys;
}

std::vector<config::FileKeys> axolotl_file_keys() {
  config::FileKeys table{"an axolotl configuration",
                         "capstan import-axolotl reads it. A key that is false, 0 or empty asks for nothing.",
                         {},
                         config::FileKeys::Unknown::named};
  for (const auto& key : axolotl_keys()) {
    using Use = config::FileKey::Use;
    const auto use = key.take == Take::neutral ? Use::neutral : key.take == Take::refused ? Use::refused : Use::used;
    table.keys.push_back({key.path, use, words_of(key)});
  }
  return {table};
}

std::string axolotl_keys_markdown() {
  std::string out = "| axolotl's key | here |\n|---|---|\n";
  for (const auto& key : axolotl_keys()) {
    const auto* how = key.take == Take::neutral ? "nothing to do: " : key.take == Take::refused ? "refused: " : "";
    out += cat("| `", key.path, "` | ", how, words_of(key), " |\n");
  }
  return out;
}

}  // namespace import_axolotl
