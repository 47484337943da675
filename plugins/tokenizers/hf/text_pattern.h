#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "regex.h"

namespace hf {

/// What a Replace or a Split looks for: a text as it is, or a regular expression.
class TextPattern {
 public:
  /// Matches nothing, as an empty text does.
  TextPattern() = default;
  explicit TextPattern(std::string text) : text_(std::move(text)) {}
  explicit TextPattern(Regex regex) : regex_(std::move(regex)) {}

  /// All matches, from left to right, none overlapping.
  std::vector<ByteRange> matches(std::string_view text) const;
  /// The text with each match replaced. Throws Error where it would become more than 16 MiB and a hundred times as
  /// long.
  std::string replaced(std::string_view text, std::string_view content) const;

 private:
  std::string text_;
  std::optional<Regex> regex_;
};

/// What becomes of the matches that a text is cut at (the names are the `tokenizers` package's).
enum class Behavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };

/// The pieces of a text, none of them empty. `matches` as TextPattern gives them; `invert`: the text between matches is
/// what is cut at.
std::vector<std::string_view> pieces_at(std::string_view text, const std::vector<ByteRange>& matches, Behavior behavior,
                                        bool invert);

}  // namespace hf
