#include "token_type.h"

#include <capstan/base/error.h>

#include <array>
#include <bit>
#include <cstring>

namespace streams {

namespace {

static_assert(std::endian::native == std::endian::little, "files have the lowest byte first");

constexpr std::array<const char*, 7> names{"uint8", "int8", "int16", "int32", "int64", "uint16", "uint32"};

// Calls with a number of the type.
template <class Call>
auto with_number(TokenType type, const Call& call) {
  switch (type) {
    case TokenType::uint8:
      return call(std::uint8_t{});
    case TokenType::int8:
      return call(std::int8_t{});
    case TokenType::int16:
      return call(std::int16_t{});
    case TokenType::int32:
      return call(std::int32_t{});
    case TokenType::int64:
      return call(std::int64_t{});
    case TokenType::uint16:
      return call(std::uint16_t{});
    case TokenType::uint32:
      break;
  }
  return call(std::uint32_t{});
}

}  // namespace

std::string name_of(TokenType type) { return names[static_cast<std::size_t>(type)]; }

std::vector<std::string> type_names() { return {names.begin(), names.end()}; }

std::optional<TokenType> type_named(std::string_view name) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (name == names[i]) return static_cast<TokenType>(i);
  }
  return {};
}

std::int64_t bytes_of(TokenType type) {
  return with_number(type, [](auto number) { return static_cast<std::int64_t>(sizeof number); });
}

TokenType type_for(std::int64_t vocab_size) {
  constexpr std::int64_t of_two_bytes = 65500;  // Megatron's number
  return vocab_size < of_two_bytes ? TokenType::uint16 : TokenType::int32;
}

void append_ids(TokenType type, const std::byte* from, std::int64_t count, std::vector<std::int64_t>& ids) {
  const auto first = ids.size();
  ids.resize(first + static_cast<std::size_t>(count));
  with_number(type, [&](auto number) {
    for (auto at = first; at < ids.size(); ++at, from += sizeof number) {
      std::memcpy(&number, from, sizeof number);
      ids[at] = +number;
    }
  });
}

void append_bytes(TokenType type, const std::vector<std::int64_t>& ids, std::string& bytes) {
  with_number(type, [&](auto number) {
    auto at = bytes.size();
    bytes.resize(at + ids.size() * sizeof number);
    for (const auto id : ids) {
      number = static_cast<decltype(number)>(id);
      CAPSTAN_ASSERT(static_cast<std::int64_t>(number) == id);
      std::memcpy(bytes.data() + at, &number, sizeof number);
      at += sizeof number;
    }
  });
}

}  // namespace streams
