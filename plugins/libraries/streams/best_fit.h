#pragma once
#include <capstan/base/files.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "token_stream.h"

namespace streams {

/// Some tokens of a stream, of one document.
struct Piece {
  std::int64_t begin = 0;
  std::int64_t length = 0;
};

/// Gets the pieces of a row.
using TakeRow = std::function<void(const std::vector<Piece>&)>;

/// Puts documents into rows of at most `most` tokens. One that is longer is cut into rows, each of which begins with
/// the token before it, so that no token but a document's first goes unpredicted; its rest and all other documents stay
/// whole. Of `window` pieces at once each goes, the longest first, into the fullest row with room for it ("Fewer
/// Truncations Improve Language Modeling", Ding et al. 2024). Rows come in the order of their first pieces.
void best_fit(const TokenStream& stream, std::int64_t most, std::int64_t window, const TakeRow& take);

/// Rows of pieces in a mapped file.
class RowFile {
 public:
  static void write(const std::filesystem::path& file, const std::function<void(const TakeRow&)>& rows);
  /// Throws Error for a file that write() did not write.
  explicit RowFile(const std::filesystem::path& file);
  std::int64_t size() const { return rows_; }
  std::vector<Piece> row(std::int64_t index) const;

 private:
  std::int64_t number(std::int64_t at) const;

  capstan::MappedFile file_;
  std::int64_t pieces_ = 0;
  std::int64_t rows_ = 0;
};

}  // namespace streams
