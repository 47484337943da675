#pragma once
#include <capstan/base/export.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace peers {

/// What the ends of the ranks' store say to each other. The server begins with `greeting` and its nonce; the client
/// answers with its nonce and its proof; the server with its own proof. Then each request is one message, and so is its
/// answer: a u32 length (little-endian) and that many bytes, which are texts, each after its u32 length.
constexpr std::string_view greeting = "capstan1";
constexpr std::size_t longest_message = std::size_t{64} << 20;

using Texts = std::vector<std::string>;
/// One message, with its length.
std::string packed(const Texts& texts);
/// The texts of a message without its length; nothing: it is none.
std::optional<Texts> unpacked(std::string_view message);
/// The length that these first four bytes say.
std::size_t message_length(std::string_view bytes);

}  // namespace peers
CAPSTAN_END_NAMESPACE
