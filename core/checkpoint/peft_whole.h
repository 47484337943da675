#pragma once
#include <capstan/base/export.h>
#include <capstan/checkpoint/peft.h>

#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

inline constexpr const char* peft_tensors_file = "adapter_model.safetensors";
inline constexpr const char* peft_config_file = "adapter_config.json";

/// Where the model's own records stand in a PEFT file that were trained beside adapters: modules that were trained
/// whole (peft's modules_to_save) and biases.
///
/// Format: peft's save_pretrained, keys base_model.model.<module>.weight; a bias of a module with an adapter stands
/// under <module>.base_layer.bias.
struct PeftWhole {
  layout::FileMap map;                       ///< of these records alone; names are the file's keys
  std::vector<std::string> modules_to_save;  ///< whole names, since peft takes every module that ends so
  std::string bias = "none";                 ///< "all", or "lora_only": some
};
PeftWhole peft_whole(const PeftContents& contents, const layout::FileMap& files);

/// The name under which transformers has the module of a tensor: "model.layers.0.mlp.up_proj".
std::string module_of(const layout::FileMap& files, const std::string& tensor);
/// The modules beside which an adapter stands.
std::vector<std::string> adapted_modules(const std::vector<PeftTensor>& tensors);

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
