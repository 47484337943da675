#pragma once
#include <capstan/base/export.h>
#include <capstan/base/json.h>

#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace hf {

/// What the config.json says of how weights are quantized; null: they are not.
Json quantization_config(const Json& config);

/// Whether weights that are quantized so can be decoded to numbers as they are read, without a strategy: FP8 with
/// scales of blocks or of matrices, and 4 bits of bitsandbytes.
bool is_decodable(const Json& quantization);

/// The method for messages: "gptq", "bitsandbytes in 8 bits"; "" where it is not said.
std::string method_of(const Json& quantization);

/// Whether experts are in MXFP4, and what is to be said of it.
bool decodes_experts(const Json& config);
inline constexpr const char* experts_note =
    " says that experts are in MXFP4: what no strategy keeps so is decoded as it is read, and written as numbers";

}  // namespace hf
CAPSTAN_END_NAMESPACE
