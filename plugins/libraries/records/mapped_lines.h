#pragma once
#include "rows.h"

#include <capstan/base/files.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace jsonl {

/// The lines of a file that are not blank; the file is mapped, so that only requested lines are read.
class MappedLines final : public Rows {
 public:
  /// Throws Error that names the file when it cannot be read.
  explicit MappedLines(std::string path);

  const std::string& path() const override { return path_; }
  /// That the file is in UTF-16, in words, and what to do; empty: it does not look like it.
  std::string encoding_fault() const;
  std::int64_t size() const override { return static_cast<std::int64_t>(lines_.size()); }
  std::string_view line(std::int64_t index) const override;
  /// As an editor counts it.
  std::string name(std::int64_t index) const override;
  std::string where(std::int64_t index) const override;
  std::string key() const override;

 private:
  struct Line {
    std::size_t begin;
    std::size_t end;
    std::int64_t number;
  };
  std::string path_;
  capstan::MappedFile file_;
  std::vector<Line> lines_;
};

}  // namespace jsonl
