#pragma once
#include <capstan/config/file_keys.h>

#include <string>
#include <string_view>
#include <vector>

#include "imports/values.h"

namespace import_axolotl {

/// What becomes of an axolotl key.
enum class Take {
  copied,   ///< the same value is our option `ours`
  used,     ///< it decides about our options, alone or with others
  neutral,  ///< it changes nothing that Capstan computes; `words` says why, or what does the same
  refused,  ///< it would change what is learned and has no counterpart; `words` says what to do
};

/// One key of an axolotl configuration.
struct AxolotlKey {
  std::string path;  ///< "lora_r", "datasets[].path"
  imports::JsonType type = imports::JsonType::anything;
  Take take = Take::neutral;
  std::string ours = {};  ///< "strategy.lora.rank"; empty where there is none, or several
  std::string words = {};
};
using Keys = std::vector<AxolotlKey>;

/// Every key that `capstan import-axolotl` knows.
const Keys& axolotl_keys();

// Its parts: what is taken over, by the tables that it goes to; and the rest.
Keys training_keys();
Keys data_keys();
Keys strategy_keys();
Keys run_keys();
Keys neutral_keys();
Keys refused_keys();

/// A list of keys with the same words.
Keys all_of(Take take, std::string_view names, const std::string& words);
/// Several lists, one after the other.
Keys joined(const std::vector<Keys>& parts);

/// The same as `capstan reference --files` prints it, and as a Markdown table for the command without a file.
std::vector<capstan::config::FileKeys> axolotl_file_keys();
std::string axolotl_keys_markdown();

}  // namespace import_axolotl
