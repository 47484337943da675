#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <string>
#include <string_view>

CAPSTAN_BEGIN_NAMESPACE
namespace store {

/// SipHash-2-4 (Aumasson and Bernstein 2012) of a text under a key of 16 bytes: who does not know the key cannot tell
/// the result from chance.
std::uint64_t siphash(std::string_view key, std::string_view text);

/// So many bytes from the system's generator. Throws Error when it gives none.
std::string random_bytes(std::size_t count);
/// A secret for a run: 32 hexadecimal digits.
std::string new_secret();

/// Random numbers of both ends of a connection, so that no proof can be used twice.
struct Nonces {
  static constexpr std::size_t size = 16;
  std::string server;
  std::string client;
};
/// Eight bytes that only who knows the secret can say for these numbers; another text for each end.
std::string proof(const std::string& secret, std::string_view end, const Nonces& nonces);

}  // namespace store
CAPSTAN_END_NAMESPACE
