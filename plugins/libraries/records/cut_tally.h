#pragma once
#include "jsonl_source.h"
#include "rows.h"

#include <cstdint>
#include <string>

namespace jsonl {

/// What lines lose that are cut to max_length.
class CutTally {
 public:
  explicit CutTally(const JsonlSource& source) : source_(source) {}
  /// The line was just asked of the source.
  void add(std::int64_t line);
  /// A sentence about those that lost tokens that bear loss; empty: none did.
  std::string text(const Rows& file, std::int64_t most) const;

 private:
  const JsonlSource& source_;
  CutSamples before_ = source_.cuts();
  CutSamples cut_ = {};
  std::int64_t first_ = 0;
};

}  // namespace jsonl
