#pragma once
#include <capstan/base/export.h>
#include <capstan/plugin/host.h>

#include <optional>
#include <string>

#include "hf/model_folder.h"

CAPSTAN_BEGIN_NAMESPACE
namespace hf {

/// The model plugin that reads this folder: whose option model_type has that of its config.json among its choices.
/// Throws Error at that file where there is none.
std::string plugin_of_folder(const std::string& folder, plugin::Host& host);

/// Refuses a folder whose config.json is of a family that this plugin does not read, by its name: everything else that
/// its numbers and tensors would be refused for follows from that. A model_type that `section`, the configuration, has
/// wins over the file's. Throws Error at the file.
void check_family(const config::Section& section, const ModelFolder& folder, const plugin::Registration& registration,
                  plugin::Host& host);

/// The method by which the folder's weights are quantized, as its config.json has it; "" where it does not say which;
/// nothing: they are not, or they are decoded as they are read.
std::optional<std::string> quantization_of_folder(const std::string& folder);

/// Refuses a folder that has a PEFT adapter and no model, or both where no strategy reads the adapter: transformers
/// would load it. Throws Error at `where`, or at the folder where that is empty.
void refuse_adapter(const ModelFolder& folder);

}  // namespace hf
CAPSTAN_END_NAMESPACE
