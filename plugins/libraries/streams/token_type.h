#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace streams {

/// How a file writes a token's id: an integer, the lowest byte first.
enum class TokenType { uint8, int8, int16, int32, int64, uint16, uint32 };

/// "uint16", and all of these names.
std::string name_of(TokenType type);
std::vector<std::string> type_names();
std::optional<TokenType> type_named(std::string_view name);
std::int64_t bytes_of(TokenType type);
/// What Megatron writes a vocabulary of this size with: uint16, or int32 where that is too small.
TokenType type_for(std::int64_t vocab_size);

/// Appends `count` ids that stand at `from`.
void append_ids(TokenType type, const std::byte* from, std::int64_t count, std::vector<std::int64_t>& ids);
/// Appends the bytes of ids, each of which the type holds.
void append_bytes(TokenType type, const std::vector<std::int64_t>& ids, std::string& bytes);

}  // namespace streams
