#pragma once
#include <capstan/base/export.h>
#include <capstan/data/source.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace data {

/// A file with a source's samples as tokens, which all ranks of a node map. `key` says everything that these depend on;
/// it stands in the file, and the file's name comes from it, so that another tokenizer or option is another file.
struct TokenCache {
  std::filesystem::path file;
  std::string key;
};

TokenCache token_cache(const std::filesystem::path& folder, const std::string& name, std::string key);

/// Is the file there, whole and for this key?
bool is_built(const TokenCache& cache);

/// Makes the file, a while at a time, so that whoever waits for it on other ranks hears from this one in between. The
/// file appears when it is complete; builders of the same file on several nodes don't disturb each other. An unfinished
/// file goes with the builder.
class TokenCacheBuilder {
 public:
  TokenCacheBuilder(std::shared_ptr<const DataSource> source, TokenCache cache);
  ~TokenCacheBuilder();
  TokenCacheBuilder(const TokenCacheBuilder&) = delete;
  TokenCacheBuilder& operator=(const TokenCacheBuilder&) = delete;
  /// Tokenizes for about so long; true when the cache is built. Throws Error when a sample or the disk is at fault.
  bool advance(std::chrono::milliseconds budget);
  /// Samples that are written, of the source's size().
  std::int64_t done() const { return done_; }

 private:
  [[noreturn]] void throw_unwritable() const;
  void write(const std::string& bytes);
  void begin();
  void finish();

  std::shared_ptr<const DataSource> source_;
  TokenCache cache_;
  std::filesystem::path unfinished_;
  std::ofstream out_;
  std::vector<std::uint64_t> offsets_;  // of each sample, and behind the last
  std::int64_t done_ = 0;
};

/// The source with get() read from the built cache. Throws Error at a file that is not what is_built() takes for one.
std::shared_ptr<DataSource> open_cached(std::shared_ptr<const DataSource> source, const TokenCache& cache);

}  // namespace data
CAPSTAN_END_NAMESPACE
