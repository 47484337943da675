#pragma once
#include <capstan/base/export.h>

#include <cstddef>
#include <string>
#include <string_view>

CAPSTAN_BEGIN_NAMESPACE
namespace tokenizer {

/// The text with ill-formed UTF-8 replaced: each maximal part that begins like a character but isn't one becomes one
/// U+FFFD (The Unicode Standard, table 3-7 and "U+FFFD substitution of maximal subparts"; what Python's
/// decode("utf-8", "replace") and Rust's from_utf8_lossy give).
std::string repair_utf8(std::string_view bytes);

/// Bytes of the first character, or of the ill-formed part there of which repair_utf8 makes one U+FFFD. `bytes` is not
/// empty.
std::size_t first_character(std::string_view bytes);

}  // namespace tokenizer
CAPSTAN_END_NAMESPACE
