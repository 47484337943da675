#pragma once
#include <capstan/base/export.h>
#include <capstan/plugin/host.h>
#include <capstan/tokenizer/opener.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace tokenizer {

/// A tokenizer and what opened it.
struct Opened {
  std::string name;  ///< "auto", "byte", or a path; "auto" if [tokenizer] names the plugin
  std::shared_ptr<const Tokenizer> object;
  std::shared_ptr<const Opener> opener = {};  ///< null: the tokenizer is the built-in one
  TokenizerRequest request = {};
  std::string plugin = {};   ///< the opener's
  std::string library = {};  ///< its file

  /// As the opener's; what it throws names the plugin.
  std::vector<std::filesystem::path> files() const;
  bool save(const std::filesystem::path& folder) const;
  /// Where its files are, else model.path; may be empty.
  std::filesystem::path folder() const {
    return request.file.empty() ? request.model_folder : request.file.parent_path();
  }
};

/// Names of the files that installed tokenizer plugins open, as their ELF notes say; none of them is loaded for it.
std::vector<std::string> file_names(const plugin::Host& host);

/// `name` is "byte", or a file that a tokenizer plugin opens, or a folder that holds one. "auto" is that of
/// `model_folder`, or "byte" if that is empty. Loads the one plugin that says it opens such a file. Throws Error for a
/// name or a file that does not exist, where no plugin or more than one opens it, and at the file for one that the
/// plugin cannot read.
Opened open_named(const std::string& name, const std::string& model_folder, plugin::Host& host);

/// Opens by a plugin, whose file is `library`; what its tokenizer throws names it.
Opened open_by(const std::string& plugin, const std::string& library, std::shared_ptr<const Opener> opener,
               TokenizerRequest request);

}  // namespace tokenizer
CAPSTAN_END_NAMESPACE
