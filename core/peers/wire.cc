#include "peers/wire.h"

#include <capstan/base/error.h>

#include <cstdint>

namespace capstan::peers {
namespace {

void put_length(std::string& out, std::size_t size) {
  CAPSTAN_ASSERT(size <= longest_message);
  for (int i = 0; i < 4; ++i) out += static_cast<char>(size >> (8 * i) & 0xFFU);
}

}  // namespace

std::string packed(const Texts& texts) {
  std::size_t size = 0;
  for (const auto& text : texts) size += 4 + text.size();
  std::string out;
  out.reserve(size + 4);
  put_length(out, size);
  for (const auto& text : texts) {
    put_length(out, text.size());
    out += text;
  }
  return out;
}

std::size_t message_length(std::string_view bytes) {
  std::size_t size = 0;
  for (std::size_t i = 4; i-- > 0;) size = size << 8U | static_cast<unsigned char>(bytes[i]);
  return size;
}

std::optional<Texts> unpacked(std::string_view message) {
  Texts out;
  while (!message.empty()) {
    if (message.size() < 4) return {};
    const auto size = message_length(message);
    message.remove_prefix(4);
    if (size > message.size()) return {};
    out.emplace_back(message.substr(0, size));
    message.remove_prefix(size);
  }
  return out;
}

}  // namespace capstan::peers
