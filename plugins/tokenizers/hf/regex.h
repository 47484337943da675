#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hf {

/// Bytes begin … end of a text.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// A regular expression of a tokenizer.json: Oniguruma, the engine of the `tokenizers` package, with that package's
/// character classes (with_own_classes). Immutable, so safe to use from several threads.
class Regex {
 public:
  /// Throws Error saying what is wrong with the expression.
  explicit Regex(const std::string& pattern);

  /// All matches in well-formed UTF-8, from left to right, none overlapping; an empty one never where the previous one
  /// ends. Throws Error if the expression needs too many steps for this text, or longer than `patience`: without one 10
  /// seconds and a second for each 100,000 bytes, which published ones need for a thousand times as much.
  std::vector<ByteRange> matches(std::string_view text, std::optional<std::chrono::milliseconds> patience = {}) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
  std::string pattern_;
};

/// As much of a pattern as a message shows.
std::string shown_pattern(const std::string& pattern);

/// The pattern with \p{…}, \P{…}, \d, \w and \b (and \D, \W, \B) written out as the ranges that the `tokenizers`
/// package means by them: Oniguruma's own tables are of the Unicode version that it was built with, which is another
/// one on every system. What (?i) folds remains Oniguruma's own. Throws Error for a class that is not known here:
/// another \p{…}, [:…:] in brackets, \X and \y.
std::string with_own_classes(std::string_view pattern);

}  // namespace hf
