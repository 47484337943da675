#pragma once
#include <capstan/base/files.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "megatron_index.h"
#include "token_type.h"

namespace streams {

/// Tokens one after another in a mapped file, and its documents where an index says them.
class TokenFile {
 public:
  /// Megatron's pair, by the name of one of the files or what both begin with. Throws Error where one is missing, and
  /// as MegatronIndex does.
  static TokenFile megatron(const std::string& path);
  /// A flat file: ids of this type, or llm.c's, whose head says which. Throws Error for another size than the type's.
  static TokenFile flat(const std::string& path, std::optional<TokenType> type);
  /// What write_stream() made in one file, for messages called `name`.
  static TokenFile joined(const std::string& path, const std::string& name);
  /// Whether llm.c wrote the file.
  static bool is_of_llmc(const std::string& path);

  /// The file with the tokens, for messages.
  const std::string& path() const { return path_; }
  TokenType type() const { return type_; }
  std::int64_t size() const { return size_; }
  /// Null: it has none.
  const MegatronIndex* index() const { return index_.get(); }
  /// Appends ids.
  void read(std::int64_t begin, std::int64_t count, std::vector<std::int64_t>& ids) const;
  /// Where a token stands in the file.
  std::int64_t byte_of(std::int64_t token) const;

 private:
  TokenFile() = default;
  std::string path_;
  std::shared_ptr<const capstan::MappedFile> file_;
  std::shared_ptr<const capstan::MappedFile> index_file_;  // null: the index is in the same file
  std::shared_ptr<const MegatronIndex> index_;
  TokenType type_ = TokenType::uint16;
  std::int64_t begin_ = 0;  // the first token's byte
  std::int64_t size_ = 0;
};

/// The two files that a path means: PATH.bin and PATH.idx, where it is one of them or without an ending.
FilePair pair_of(const std::string& path);

/// What joined files end with, after the tokens and the index.
struct JoinedEnd {
  std::uint64_t index_bytes = 0;
  std::uint64_t magic = 0x314D525453504143;  // "CAPSTRM1"
};

}  // namespace streams
