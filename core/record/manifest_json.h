#pragma once
#include <nlohmann/json.hpp>

#include "record/manifest.h"

namespace capstan::checkpoint {

/// {"files": {name: bytes}, "tensors": {name: {"shape", "dtype", "boxes"}}}.
nlohmann::json json_of(const Contents& contents);
/// Throws nlohmann's exceptions, and Error without a place.
Contents contents_from(const nlohmann::json& json);

}  // namespace capstan::checkpoint
