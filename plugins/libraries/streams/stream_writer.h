#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "token_type.h"

namespace streams {

/// Documents as tokens.
struct TokenBatch {
  std::string bytes;                  ///< the tokens, as the writer's type
  std::vector<std::int32_t> lengths;  ///< each document's number of tokens
  std::int64_t text_bytes = 0;        ///< that were read for it
};

/// Writes tokens to a file, and what Megatron's index says of them to another or after them. Four bytes a document are
/// in memory. Throws FileError.
class StreamWriter {
 public:
  StreamWriter(std::filesystem::path file, TokenType type);
  TokenType type() const { return type_; }
  void add(const TokenBatch& batch);
  /// Ends the file, and writes the index to another one.
  void finish(const std::filesystem::path& index);
  /// Ends the file with the index in it, for TokenFile::joined().
  void finish_joined();
  std::int64_t documents() const { return static_cast<std::int64_t>(lengths_.size()); }
  std::int64_t tokens() const { return tokens_; }

 private:
  void write(std::ofstream& out, const std::filesystem::path& path, const std::string& bytes) const;
  void write_index(std::ofstream& out, const std::filesystem::path& path) const;

  std::filesystem::path path_;
  TokenType type_;
  std::ofstream out_;
  std::vector<std::int32_t> lengths_;
  std::int64_t tokens_ = 0;
};

}  // namespace streams
