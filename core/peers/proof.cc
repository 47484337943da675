#include "peers/proof.h"

#include <capstan/base/error.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

namespace capstan::peers {

std::string random_bytes(std::size_t count) {
  std::string out(count, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(count)) != 1)
    throw Error("the system gives no random numbers, and without them ranks cannot prove that they are of one run");
  return out;
}

std::string new_secret() {
  constexpr std::string_view hex = "0123456789abcdef";
  std::string out;
  for (const char c : random_bytes(16)) {
    out += hex[static_cast<unsigned char>(c) >> 4U];
    out += hex[static_cast<unsigned char>(c) & 15U];
  }
  return out;
}

std::string proof(const std::string& secret, std::string_view end, const Nonces& nonces) {
  const auto text = std::string(end) + nonces.server + nonces.client;
  std::string out(proof_bytes, '\0');
  unsigned int size = 0;
  const auto* made = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                          reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                          reinterpret_cast<unsigned char*>(out.data()), &size);
  CAPSTAN_ASSERT(made != nullptr && size == proof_bytes);
  return out;
}

bool is_proof(std::string_view given, const std::string& secret, std::string_view end, const Nonces& nonces) {
  return given.size() == proof_bytes &&
         CRYPTO_memcmp(given.data(), proof(secret, end, nonces).data(), proof_bytes) == 0;
}

}  // namespace capstan::peers
