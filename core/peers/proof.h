#pragma once
#include <capstan/base/export.h>

#include <cstddef>
#include <string>
#include <string_view>

CAPSTAN_BEGIN_NAMESPACE
namespace peers {

/// `count` bytes from the system's generator. Throws Error when it gives none.
std::string random_bytes(std::size_t count);
/// A secret for a run: 32 hexadecimal digits.
std::string new_secret();

/// Random numbers of both ends of a connection, so that no proof can be used twice.
struct Nonces {
  static constexpr std::size_t size = 16;
  std::string server;
  std::string client;
};
/// The text that only an end which knows the secret can give for these numbers: HMAC-SHA-256 (RFC 2104) of the end's
/// name and the numbers; it is another for each end.
std::string proof(const std::string& secret, std::string_view end, const Nonces& nonces);
constexpr std::size_t proof_bytes = 32;
/// Whether what the other end gave is its proof, compared in constant time.
bool is_proof(std::string_view given, const std::string& secret, std::string_view end, const Nonces& nonces);

}  // namespace peers
CAPSTAN_END_NAMESPACE
