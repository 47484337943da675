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

/// A file with a source's samples as tokens, which all ranks of a node map. `key` contains everything that the tokens
/// depend on; it is stored in the file, and the file's name is derived from it, so that another tokenizer or option
/// gives another file. Checksums cover the whole file.
struct TokenCache {
  std::filesystem::path file;
  std::string key;
};

TokenCache token_cache(const std::filesystem::path& folder, const std::string& name, std::string key);

class TokenCacheCheck;

/// Verifies the file, or makes it if it is missing or damaged, in time slices, so that ranks that wait for it hear
/// from this one in between. The file appears when it is complete; builders of the same file on several nodes don't
/// disturb each other. The destructor removes an unfinished file.
class TokenCacheBuilder {
 public:
  TokenCacheBuilder(std::shared_ptr<const DataSource> source, TokenCache cache);
  ~TokenCacheBuilder();
  TokenCacheBuilder(const TokenCacheBuilder&) = delete;
  TokenCacheBuilder& operator=(const TokenCacheBuilder&) = delete;
  /// Works for about `budget`; true when the cache is complete. Throws Error when a sample or the disk is at fault.
  bool advance(std::chrono::milliseconds budget);
  /// How many of the source's size() samples are verified, or written.
  std::int64_t done() const { return done_; }
  /// Whether there was no valid file: samples are, or were, tokenized.
  bool tokenizes() const { return !offsets_.empty(); }
  /// What is wrong with the existing file, which is made again, in words that name it; empty: nothing.
  const std::string& damage() const { return damage_; }

 private:
  [[noreturn]] void throw_unwritable() const;
  bool verify(std::chrono::steady_clock::time_point until);
  void write(const std::string& bytes);
  void begin();
  void finish();

  std::shared_ptr<const DataSource> source_;
  TokenCache cache_;
  std::unique_ptr<TokenCacheCheck> check_;  // while the existing file may be valid
  bool whole_ = false;
  std::string damage_;
  std::filesystem::path unfinished_;
  std::ofstream out_;
  std::vector<std::uint64_t> offsets_;  // where each sample begins, and where the last one ends
  std::vector<std::uint64_t> sums_;     // each sample's checksum
  std::int64_t done_ = 0;
};

/// The source with get() reading from the built cache. Throws Error if the file's head or table is damaged; get() does
/// so for its sample. The builder verifies all samples.
std::shared_ptr<DataSource> open_cached(std::shared_ptr<const DataSource> source, const TokenCache& cache);

}  // namespace data
CAPSTAN_END_NAMESPACE
