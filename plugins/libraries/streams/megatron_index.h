#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "token_type.h"

namespace streams {

/// What Megatron's index begins with (megatron/core/datasets/indexed_dataset.py): the nine bytes of its name, a u64
/// version, a u8 for the type of ids, a u64 number of sequences, a u64 number of document indices. There follow i32
/// lengths of sequences, i64 bytes before each, i64 sequences before each document and before the end, and maybe an i8
/// mode for each sequence.
struct IndexHead {
  static constexpr std::string_view magic{"MMIDIDX\0\0", 9};
  static constexpr std::uint64_t version = 1;
  static constexpr std::uint64_t bytes = magic.size() + 8 + 1 + 8 + 8;
  /// Megatron's number for the type.
  static std::uint8_t code_of(TokenType type);
};

/// A file of tokens and the file of its index, for messages.
struct FilePair {
  std::string tokens;
  std::string index;
};

/// The documents of a Megatron file, read from the mapped bytes of its index, which must outlive the object.
class MegatronIndex {
 public:
  /// Reads all of it once. Throws Error, with the byte that is at fault, where it is damaged, says something else than
  /// that sequences follow one another, or is not for a file of `token_bytes` bytes.
  MegatronIndex(std::string_view bytes, std::uint64_t token_bytes, FilePair files);

  TokenType type() const { return type_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t documents() const { return documents_; }
  /// The tokens before a document, 0 <= document <= documents().
  std::int64_t begin(std::int64_t document) const;

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void check_name() const;
  TokenType read_type() const;
  void read_counts();
  void check_sequences(std::uint64_t token_bytes) const;
  void check_documents() const;
  template <class Number>
  Number number(std::uint64_t at) const;
  std::int64_t length(std::int64_t sequence) const;
  std::int64_t bytes_before(std::int64_t sequence) const;
  std::int64_t sequences_before(std::int64_t document) const;
  std::uint64_t documents_at() const { return IndexHead::bytes + 12 * static_cast<std::uint64_t>(sequences_); }

  std::string_view bytes_;
  FilePair files_;
  TokenType type_ = TokenType::uint16;
  std::int64_t sequences_ = 0;
  std::int64_t documents_ = 0;
  std::int64_t tokens_ = 0;
};

}  // namespace streams
