#pragma once
#include <capstan/base/line_file.h>
#include <capstan/monitor/monitor.h>

#include <filesystem>
#include <string>
#include <vector>

namespace csv {

/// A table of numbers in a file: a row an event, a column a name, empty where an event does not have it. A row is in
/// the file as soon as add() returns. When a new name comes, the file is rewritten with one more column.
class Table {
 public:
  /// Begins an empty table, or continues with the rows of the first `keep` steps. Throws FileError.
  Table(std::filesystem::path file, std::int64_t keep);
  void add(std::int64_t step, const capstan::monitor::Values& values);
  /// The same for what an earlier start of the run may have added already: a row of this step with the same columns
  /// filled is taken out.
  void replace(std::int64_t step, const capstan::monitor::Values& values);

 private:
  void load(std::int64_t keep);
  std::vector<std::string> rows() const;
  void write_all(const std::vector<std::string>& rows);
  std::filesystem::path file_;
  std::vector<std::string> columns_{"step"};
  capstan::LineFile out_;
};

}  // namespace csv
