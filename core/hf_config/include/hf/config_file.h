#pragma once
#include <capstan/base/export.h>
#include <capstan/config/options.h>
#include <capstan/plugin/registry.h>

#include <string>
#include <vector>

#include "hf/model_folder.h"

CAPSTAN_BEGIN_NAMESPACE
namespace hf {

/// Adds what a Hugging Face folder's config.json says of the model's options, under the option's own name or one
/// of its spellings, as a layer below the configuration: keys that `section` has already stay. Nested tables are
/// dotted keys; null is as if the key were not there, but for an option that need not be set, which it then is not.
/// What the file leaves out is what transformers takes for this family (Registration::file_defaults). Every other key
/// is held against the plugin's tables (Registration::file_keys) "config.json" and "config.json of FAMILY", those of
/// generation_config.json against "generation_config.json"; a plugin without tables lets all keys pass.
/// Throws Error: at `where` when the file is missing or the folder is an adapter's; at the file when it is no JSON, has
/// keys that are refused, unknown ones in a table such as rope_scaling, or spellings of one option that disagree.
FromFolder with_model_file(const config::Section& section, const ModelFolder& folder,
                           const plugin::Registration& registration);

/// The option's names in files, its own first.
std::vector<std::string> names_of(const config::OptionSpec& spec);

}  // namespace hf
CAPSTAN_END_NAMESPACE
