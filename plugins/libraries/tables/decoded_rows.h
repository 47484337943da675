#pragma once
#include "worker.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "records/mapped_lines.h"

namespace tables {

/// Files whose rows are read as one after the other.
struct TableFiles {
  std::string name;                    ///< what messages call all of them
  std::vector<std::string> files;      ///< Parquet, Arrow, JSON lines, JSON, CSV, maybe compressed
  std::vector<std::string> leave_out;  ///< columns that are not read
  std::filesystem::path folder = {};   ///< where decoded rows are kept; empty: data::derived_folder()
  Python python = {};
  std::string content = {};  ///< Rows::content()
};

/// The rows of tables as JSON objects. They are decoded once a node, into a file that is mapped: random access by row,
/// and no row is in memory that was not asked for.
class DecodedRows final : public jsonl::Rows {
 public:
  /// Decodes them, or finds them decoded. Throws one Error at the file and row that are at fault.
  explicit DecodedRows(const TableFiles& tables);

  const std::string& path() const override { return name_; }
  std::int64_t size() const override { return lines_.size() - 1; }
  std::string_view line(std::int64_t index) const override { return lines_.line(index); }
  /// "row 7", counted from 1 in its file.
  std::string name(std::int64_t index) const override;
  /// "FILE row 7".
  std::string where(std::int64_t index) const override;
  std::string key() const override;
  std::string content() const override { return content_; }

 private:
  struct Place {
    std::size_t file;
    std::int64_t row;
  };
  Place place(std::int64_t index) const;

  std::string name_;
  std::string content_;
  std::vector<std::string> files_;
  jsonl::MappedLines lines_;        // and last a line with the number of each file's rows
  std::vector<std::int64_t> ends_;  // the rows of each file and of those before it
};

/// The data files in a folder that are one split's, by name; the file itself where it is none. Adds a fault, of the
/// option `key` at `where`, for a folder without any, and for one with files of several splits.
std::vector<std::string> files_in(const std::string& path, const std::string& key, const std::string& where,
                                  capstan::Diagnostics& diagnostics);

}  // namespace tables
