#pragma once
#include <algorithm>
#include <string>

namespace capstan {

/// A to Z as a to z; nothing else changes.
inline std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

}  // namespace capstan
