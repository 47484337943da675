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

}  // namespace hf
CAPSTAN_END_NAMESPACE
