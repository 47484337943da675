#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hf {

/// Bytes as the printable characters that byte-level vocabularies are written in (GPT-2's bytes_to_unicode: printable
/// Latin-1 maps to itself, the other 68 bytes to U+0100 … U+0143 in order).
std::string byte_level_text(std::string_view bytes);
/// The bytes of such a text; nothing if one of its characters maps to no byte.
std::optional<std::string> byte_level_bytes(std::string_view text);

}  // namespace hf
