#pragma once
#include <capstan/base/export.h>
#include <capstan/base/json.h>

CAPSTAN_BEGIN_NAMESPACE
namespace hf {

/// A config.json of transformers 5 has what some blocks have of their own by block ("per_layer_config"). Where these
/// are all global blocks and have the same, this becomes the keys that published files have ("global_head_dim",
/// "num_global_key_value_heads"); anything else stays.
void settle_layers(Json& json);

}  // namespace hf
CAPSTAN_END_NAMESPACE
