#pragma once
#include <capstan/base/export.h>
#include <capstan/config/options.h>
#include <capstan/layout/file_tensor.h>

#include <cstdint>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace hf {

/// Ids that a config.json names; -1 and no ends: it says null.
struct TokenIds {
  std::int64_t begin = -1;
  std::vector<std::int64_t> ends;
  std::int64_t pad = -1;
};

/// What a config.json is written from.
struct ConfigJson {
  const std::vector<config::Resolved>& options;  ///< the model's; the same table reads and writes such files
  const layout::FileMap& map;
  std::string original;  ///< text of the config.json that the model came from, which keeps all else it says; or empty
  TokenIds ids;          ///< where there is no original
  std::string dtype;     ///< "bfloat16"
  /// JSON: "quantization_config", which tells of packed weights; empty: none are.
  std::string quantization = {};
};

/// The text of a config.json from which with_model_file reads the same options. Each stands under every name that the
/// original has for it, else under its first spelling (not in rope_parameters), else under its own key. Throws Error
/// where the model has no such file.
std::string config_json(const ConfigJson& from);

/// The text of a generation_config.json or config.json whose eos_token_id has these ids too: its programs end answers
/// there. `added` gets those that it lacked; where it lacks none the text stays as it is.
std::string with_answer_ends(const std::string& text, const std::vector<std::int64_t>& ends,
                             std::vector<std::int64_t>& added);

}  // namespace hf
CAPSTAN_END_NAMESPACE
