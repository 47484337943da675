#pragma once
#include <capstan/base/error.h>
#include <capstan/config/options.h>

#include <string>

namespace capstan::setup {

/// A Hugging Face folder, and what in the configuration names it.
struct ModelFolder {
  std::string path;
  std::string where;
};

/// Adds what a Hugging Face folder's config.json says of the model's options, under the option's own name or one
/// of its spellings, as a layer below the configuration: keys that `section` has already stay. Nested tables are
/// dotted keys. Keys that no option knows are left out (a config.json says much that is not the model's).
/// Throws Error: at `where` when the file is missing, at the file when it is no JSON.
config::Section with_model_file(const config::Section& section, const ModelFolder& folder,
                                const config::Schema& schema);

}  // namespace capstan::setup
