#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tables/worker.h"

namespace streams {

/// A file of documents as text.
struct TextInput {
  std::string path;  ///< JSON lines (.jsonl, .json), a table (tables/decoded_rows.h), a folder of tables, or plain text
  std::string key = "text";            ///< under which a line or a row has its text
  std::string separator = {};          ///< between the documents of a plain text; empty: it is one document
  std::filesystem::path derived = {};  ///< where tables' decoded rows are kept; empty: data::derived_folder()
  tables::Python python = {};          ///< that decodes them
};

/// Whole documents, some of a file's.
struct TextBatch {
  std::string bytes;
  std::int64_t first = 0;  ///< number of the first line, row or document
};

/// Reads documents, a few at a time.
class TextReader {
 public:
  virtual ~TextReader();
  /// The next documents, about a mebibyte; false: there are none. From one thread at a time.
  virtual bool next(TextBatch& batch) = 0;
  /// Calls with each text of a batch that is not blank. Throws Error at its file and line. Thread-safe.
  virtual void each(const TextBatch& batch, const std::function<void(std::string_view)>& call) const = 0;
  /// Bytes in all.
  virtual std::int64_t total() const = 0;
};

/// Whether a file of this name is one of text, and not of tokens.
bool is_text(const std::string& path);
/// Throws Error for a file that cannot be read, is empty or in UTF-16.
std::unique_ptr<TextReader> open_texts(const TextInput& input);

}  // namespace streams
