#pragma once
#include <capstan/base/export.h>
#include <capstan/tokenizer/tokenizer.h>

#include <filesystem>
#include <memory>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace tokenizer {

/// What core tells a tokenizer plugin when it opens its tokenizer.
struct OpenRequest {
  std::filesystem::path model_folder;  ///< model.path's folder; empty: the configuration names none
};

/// What a tokenizer plugin is: opens the tokenizer that its options describe. Called from one thread.
class Opener {
 public:
  virtual ~Opener();
  /// Never null. Throws Error, or Error with several diagnostics, for files and options that are wrong: `capstan check`
  /// opens the tokenizer too, so that it reports them.
  virtual std::shared_ptr<const Tokenizer> open(const OpenRequest& request) const = 0;
  /// The files that open() reads, of the options or of the model's folder: token caches are made again when one of them
  /// changes, and the model folder that a run leaves gets copies of them, by their names. None by default.
  virtual std::vector<std::filesystem::path> files(const OpenRequest& request) const;
};

}  // namespace tokenizer
CAPSTAN_END_NAMESPACE
