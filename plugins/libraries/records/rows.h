#pragma once
#include "columns.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace jsonl {

/// Rows of a file, each a JSON object as text.
class Rows {
 public:
  virtual ~Rows();
  /// What messages call all of them: the file, or the folder.
  virtual const std::string& path() const = 0;
  virtual std::int64_t size() const = 0;
  /// The text of a row, 0 <= index < size(); it lives as long as the object.
  virtual std::string_view line(std::int64_t index) const = 0;
  /// What a row is called in its file: "line 7".
  virtual std::string name(std::int64_t index) const = 0;
  /// Its place, for messages: "FILE:7".
  virtual std::string where(std::int64_t index) const = 0;

  /// All that its rows' texts depend on, for a key of what is made of them.
  virtual std::string key() const = 0;

  const Columns& columns() const { return columns_; }
  void rename(Columns columns) { columns_ = std::move(columns); }

 private:
  Columns columns_;
};

}  // namespace jsonl
