#pragma once
#include <capstan/base/error.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace jsonl {

/// Which of a file's columns are read as which keys, as data.columns says.
class Columns {
 public:
  Columns() = default;
  /// Each text is "KEY = COLUMN". Adds a fault, of the option `name` at `where`, for any other, for a key that no form
  /// has, and for one that is said twice.
  Columns(const std::vector<std::string>& texts, const std::string& name, const std::string& where,
          capstan::Diagnostics& diagnostics);

  struct Entry {
    std::string key;
    std::string column;
  };
  const std::vector<Entry>& entries() const { return entries_; }
  bool empty() const { return entries_.empty(); }
  /// The file's own name of what is read as `key`.
  std::string column_of(std::string_view key) const;

 private:
  std::vector<Entry> entries_;
};

}  // namespace jsonl
