#pragma once
#include <capstan/base/export.h>

#include <algorithm>
#include <string>

CAPSTAN_BEGIN_NAMESPACE

/// A to Z as a to z; nothing else changes.
inline std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

CAPSTAN_END_NAMESPACE
