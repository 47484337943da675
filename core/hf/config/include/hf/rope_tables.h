#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/base/json.h>

#include <functional>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace hf {

/// What settle_rope asks of whoever reads the file.
struct RopeReader {
  std::function<bool(const std::string& name)> is_set;  ///< the configuration sets the option with this name in files
  Json longest;   ///< max_position_embeddings where the file does not say it; null: not known
  Json original;  ///< original_max_position_embeddings next to the table, where the file does not say it; null: none
};

/// Reads a config.json's rotary tables as transformers 5 does: `rope_scaling` of transformers 4 or `rope_parameters` of
/// 5. Puts the length of the unscaled model into the table where it is left out: that of the whole file, else
/// max_position_embeddings; into longrope's also its factor, the ratio of the two lengths. Adds a fault where two
/// tables disagree, or where a scaling lacks a number that transformers requires.
void settle_rope(Json& json, const RopeReader& reader, const std::string& file, Diagnostics& faults);

}  // namespace hf
CAPSTAN_END_NAMESPACE
