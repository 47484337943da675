#include <capstan/tokenizer/utf8.h>

#include <algorithm>

namespace capstan::tokenizer {
namespace {

struct Part {
  std::size_t size = 1;  // bytes that belong together
  bool whole = false;    // they are a character
};

bool within(unsigned char byte, unsigned low, unsigned high) { return byte >= low && byte <= high; }

// The character, or the beginning of one, at the front (table 3-7 of The Unicode Standard).
Part front(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  if (lead < 0x80) return {1, true};
  if (!within(lead, 0xC2, 0xF4)) return {1, false};
  const std::size_t wanted = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and code points above U+10FFFF.
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  std::size_t size = 1;
  while (size < std::min(wanted, bytes.size())) {
    const auto next = static_cast<unsigned char>(bytes[size]);
    if (!(size == 1 ? within(next, low, high) : within(next, 0x80, 0xBF))) break;
    ++size;
  }
  return {size, size == wanted};
}

}  // namespace

std::size_t first_character(std::string_view bytes) { return front(bytes).size; }

std::string repair_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const auto part = front(bytes);
    out += part.whole ? bytes.substr(0, part.size) : std::string_view("\xEF\xBF\xBD");
    bytes.remove_prefix(part.size);
  }
  return out;
}

}  // namespace capstan::tokenizer
