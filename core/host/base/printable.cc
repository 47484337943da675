#include <capstan/base/encoding.h>
#include <capstan/base/printable.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdint>

namespace capstan {
namespace {

// The character at the text's beginning, and its bytes; 0: there is none.
std::size_t read_character(std::string_view text, std::int32_t& character) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto length = utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size()), &character);
  return length > 0 ? static_cast<std::size_t>(length) : 0;
}

// U+0080 to U+009F are control characters too: some terminals take them. Those of writing direction reorder what
// follows them, so that a line reads as something else; U+2028 and U+2029 end a line.
bool is_control(std::int32_t c) {
  const bool is_direction =
      c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x2028 || c == 0x2029 || is_direction;
}

void append_hex(std::string& out, std::uint32_t number, unsigned digits) {
  constexpr std::string_view hex = "0123456789abcdef";
  while (digits-- > 0) out += hex[(number >> (4 * digits)) & 15U];
}

// JSON and TOML stay JSON and TOML, since their own texts have none of these control characters.
void append_escaped(std::string& out, std::string_view bytes, std::int32_t character) {
  if (character >= 0x7F) {
    out += "\\u";
    return append_hex(out, static_cast<std::uint32_t>(character), 4);
  }
  for (const char c : bytes) {
    out += "\\x";
    append_hex(out, static_cast<unsigned char>(c), 2);
  }
}

std::string shown(std::string_view text, std::string_view line_end) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    std::int32_t character = 0;
    const auto length = read_character(text, character);
    const auto part = text.substr(0, std::max<std::size_t>(1, length));
    text.remove_prefix(part.size());
    if (part == "\n") {
      out += line_end;
      if (line_end.size() == 1 && !text.empty() && text[0] != ' ' && text[0] != '\n') out += "    ";
    } else if (part == "\t") {
      out += line_end.size() == 1 ? "\t" : "\\t";
    } else if (length == 0 || is_control(character)) {
      append_escaped(out, part, length == 0 ? 0 : character);
    } else {
      out += part;
    }
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return shown(text, "\\n"); }
std::string printable_lines(std::string_view text) { return shown(text, "\n"); }

std::size_t find_no_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    std::int32_t character = 0;
    const auto length = read_character(text.substr(at), character);
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

bool is_utf8(std::string_view text) { return find_no_utf8(text) == std::string_view::npos; }

}  // namespace capstan
