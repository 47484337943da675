#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/codec_files.h>

#include <string>
#include <vector>

#include <capstan/plugin/host.h>
#include "assembly/model_file.h"

CAPSTAN_BEGIN_NAMESPACE
namespace assembly {

/// The model plugin that reads this folder: whose option model_type has that of its config.json among its choices.
/// Throws Error at that file where there is none.
std::string plugin_of_folder(const std::string& folder, plugin::Host& host);

/// Refuses a folder whose config.json is of a family that this plugin does not read, by its name: everything else that
/// its numbers and tensors would be refused for follows from that. A model_type that `section`, the configuration, has
/// wins over the file's. Throws Error at the file.
void check_family(const config::Section& section, const ModelFolder& folder, const plugin::Registration& registration,
                  plugin::Host& host);

/// How packed weights of this folder are recognised: by the forms that the run's strategies read, `known`, and where
/// its config.json names another method than theirs, also by those of strategies that are installed, for a fault that
/// says which. Throws Error at the file for a method that none of them reads.
std::vector<nn::PackedForm> forms_of_folder(const ModelFolder& folder, std::vector<nn::PackedForm> known,
                                            plugin::Host& host);

}  // namespace assembly
CAPSTAN_END_NAMESPACE
