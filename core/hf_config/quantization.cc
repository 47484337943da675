#include "hf/quantization.h"

#include "hf/wrapper.h"

namespace capstan::hf {

Json quantization_config(const Json& config) {
  for (const auto* part : {&config, &text_part(config)}) {
    const auto found = part->is_object() ? part->find("quantization_config") : part->end();
    if (found != part->end() && !found->is_null()) return *found;
  }
  return nullptr;
}

bool is_decodable(const Json& quantization) {
  if (!quantization.is_object()) return false;
  const auto is = [&](const char* key, const Json& value) { return quantization.value(key, Json()) == value; };
  if (is("quant_method", "bitsandbytes")) return !is("load_in_8bit", true);
  if (is("quant_method", "mxfp4")) return true;  // experts' alone, whose tensors have names of their own
  const bool is_e4m3 = !quantization.contains("fmt") || is("fmt", "e4m3") || is("fmt", "float8_e4m3fn");  // MiniMax
  return is("quant_method", "fp8") && is_e4m3;
}

bool decodes_experts(const Json& config) { return method_of(quantization_config(config)) == "mxfp4"; }

std::string method_of(const Json& quantization) {
  const auto method = quantization.is_object() ? quantization.value("quant_method", Json()) : Json();
  if (!method.is_string()) return {};
  const bool is_8_bits = quantization.value("load_in_8bit", Json()) == Json(true);
  return method.text() + (is_8_bits ? " in 8 bits" : "");
}

}  // namespace capstan::hf
