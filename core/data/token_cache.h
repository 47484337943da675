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
/// it stands in the file, and the file's name comes from it, so that another tokenizer or option is another file. All
/// of the file is under checksums.
struct TokenCache {
  std::filesystem::path file;
  std::string key;
};

TokenCache token_cache(const std::filesystem::path& folder, const std::string& name, std::string key);

class TokenCacheCheck;

/// Verifies the file, or makes it where it is missing or damaged, a while at a time, so that whoever waits for it on
/// other ranks hears from this one in between. The file appears when it is complete; builders of the same file on
/// several nodes don't disturb each other. An unfinished file goes with the builder.
class TokenCacheBuilder {
 public:
  TokenCacheBuilder(std::shared_ptr<const DataSource> source, TokenCache cache);
  ~TokenCacheBuilder();
  TokenCacheBuilder(const TokenCacheBuilder&) = delete;
  TokenCacheBuilder& operator=(const TokenCacheBuilder&) = delete;
  /// Works for about so long; true when the cache is whole. Throws Error when a sample or the disk is at fault.
  bool advance(std::chrono::milliseconds budget);
  /// Samples that are verified, or written, of the source's size().
  std::int64_t done() const { return done_; }
  /// Whether there was no whole file: samples are, or were, tokenized.
  bool tokenizes() const { return !offsets_.empty(); }
  /// What is wrong with the file that was there and is made again, in words that name it; empty: nothing.
  const std::string& damage() const { return damage_; }

 private:
  [[noreturn]] void throw_unwritable() const;
  bool verify(std::chrono::steady_clock::time_point until);
  void write(const std::string& bytes);
  void begin();
  void finish();

  std::shared_ptr<const DataSource> source_;
  TokenCache cache_;
  std::unique_ptr<TokenCacheCheck> check_;  // while the file that is there may be whole
  bool whole_ = false;
  std::string damage_;
  std::filesystem::path unfinished_;
  std::ofstream out_;
  std::vector<std::uint64_t> offsets_;  // of each sample, and behind the last
  std::vector<std::uint64_t> sums_;     // of each sample
  std::int64_t done_ = 0;
};

/// The source with get() read from the built cache. Throws Error where the file's head or table is not what was
/// written; get() does so for its sample. Whether all samples are whole, the builder says.
std::shared_ptr<DataSource> open_cached(std::shared_ptr<const DataSource> source, const TokenCache& cache);

}  // namespace data
CAPSTAN_END_NAMESPACE
