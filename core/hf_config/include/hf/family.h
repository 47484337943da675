#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/file_tensor.h>
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

/// How the folder's weights are quantized, as its config.json says; nothing: they are not.
std::optional<Quantization> quantization_of_folder(const std::string& folder);

/// Where a model's records are in the folder: `map`, or the same inside of a model around it (in_wrapper).
layout::FileMap map_in_folder(const std::string& folder, layout::FileMap map);

/// Refuses a folder that has a PEFT adapter and no model, or both where no strategy reads the adapter: transformers
/// would load it. Throws Error at `where`, or at the folder where that is empty.
void refuse_adapter(const ModelFolder& folder);

}  // namespace hf
CAPSTAN_END_NAMESPACE
