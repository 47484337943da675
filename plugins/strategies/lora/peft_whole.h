#pragma once

#include <string>
#include <vector>

#include "peft.h"

namespace lora {

inline constexpr const char* peft_tensors_file = "adapter_model.safetensors";
inline constexpr const char* peft_config_file = "adapter_config.json";

/// Where a PEFT file holds the model's own records that were trained besides adapters: fully trained modules (peft's
/// modules_to_save) and biases.
///
/// Format: peft's save_pretrained, keys base_model.model.<module>.weight; a bias of a module with an adapter is
/// under <module>.base_layer.bias.
struct PeftWhole {
  layout::FileMap map;                       ///< only of these records; names are the file's keys
  std::vector<std::string> modules_to_save;  ///< full names, since peft selects every module whose name ends so
  std::string bias = "none";                 ///< "all", or "lora_only": some
};
PeftWhole peft_whole(const PeftContents& contents, const layout::FileMap& files);

/// The name under which transformers has the module of a tensor: "model.layers.0.mlp.up_proj".
std::string module_of(const layout::FileMap& files, const std::string& tensor);
/// The modules that have an adapter.
std::vector<std::string> adapted_modules(const std::vector<PeftTensor>& tensors);

}  // namespace lora
