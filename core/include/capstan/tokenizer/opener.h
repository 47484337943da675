#pragma once
#include <capstan/base/export.h>
#include <capstan/tokenizer/tokenizer.h>

#include <filesystem>
#include <memory>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace tokenizer {

/// What core tells a tokenizer plugin when it opens its tokenizer.
struct TokenizerRequest {
  std::filesystem::path model_folder;  ///< model.path's folder; empty: the configuration names none
  std::filesystem::path file = {};     ///< what to open where no [tokenizer] names the plugin, but a file that it opens
};

/// What a tokenizer plugin is: opens the tokenizer that its options describe, or, if it opens files by their names
/// (CAPSTAN_TOKENIZER_OF_FILES), the request's file. Called from one thread.
class Opener {
 public:
  virtual ~Opener();
  /// Never null. Throws Error, or Error with several diagnostics, for files and options that are wrong: `capstan check`
  /// opens the tokenizer too, so that it reports them.
  virtual std::shared_ptr<const Tokenizer> open(const TokenizerRequest& request) const = 0;
  /// The files that open() reads, which the options name or the model's folder has: token caches are made again when
  /// one of them changes. None by default.
  virtual std::vector<std::filesystem::path> files(const TokenizerRequest& request) const;
  /// Puts what other programs read this tokenizer from into the model folder that a run leaves; returns whether that is
  /// anything. By default copies of files(), by their names.
  virtual bool save(const TokenizerRequest& request, const std::filesystem::path& folder) const;
};

}  // namespace tokenizer
CAPSTAN_END_NAMESPACE
