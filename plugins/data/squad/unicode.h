#pragma once
#include <string>
#include <string_view>

namespace squad {

/// Characters of a UTF-8 text; each byte of an ill-formed part becomes U+FFFD.
std::u32string characters(std::string_view utf8);
/// Python's str.isalnum: with '_' what re's \w matches.
bool is_word(char32_t c);
/// Python's str.isspace: str.split() splits at these.
bool is_space(char32_t c);
/// Python's str.lower, final sigma and U+0130 included.
std::u32string lower(std::u32string_view text);

}  // namespace squad
