#pragma once
#include <capstan/base/export.h>

#include <charconv>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE

/// The arguments streamed one after the other: cat("rank ", 3, " of ", 4).
template <class... Args>
std::string cat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

/// "a, b, c".
std::string join(const std::vector<std::string>& parts, std::string_view separator = ", ");
/// Parts between `separator`; an empty text gives no part.
std::vector<std::string> split(std::string_view text, char separator);
/// The text without white space (ASCII) at both ends.
std::string trim(std::string_view text);
/// A to Z as a to z; nothing else changes.
std::string lower(std::string text);
/// The number that the whole text is; nothing where it is none, or too large for Number.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}
/// The candidate with the smallest edit distance to `name`, or "" when none is near enough to be meant.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);
/// "did you mean 'x'?", or "one of: a, b, c" when nothing is near.
std::string suggestion(std::string_view name, const std::vector<std::string>& candidates);
/// 1234567 -> "1,234,567".
std::string thousands(std::int64_t number);
/// 1536 -> "1.50 KiB".
std::string bytes_text(double bytes);
/// 3725 s -> "1:02:05"; 65 s -> "1:05".
std::string duration_text(double seconds);
/// The shortest text that reads back as the same double ("0.1", "1e-05").
std::string number_text(double number);
/// Rows with their columns padded to equal width, two spaces between; the first row is the head.
std::string table_text(const std::vector<std::vector<std::string>>& rows);
/// Capstan's version, "0.1.0".
std::string version();

CAPSTAN_END_NAMESPACE
