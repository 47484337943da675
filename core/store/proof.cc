#include "store/proof.h"

#include <capstan/base/error.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <sys/random.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

namespace capstan::store {
namespace {

std::uint64_t word(std::string_view bytes) {  // little-endian, at most eight bytes
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8U | static_cast<unsigned char>(bytes[i]);
  return value;
}

struct State {
  std::array<std::uint64_t, 4> v;

  void rounds(int count) {
    for (; count > 0; --count) {
      v[0] += v[1];
      v[2] += v[3];
      v[1] = std::rotl(v[1], 13) ^ v[0];
      v[3] = std::rotl(v[3], 16) ^ v[2];
      v[0] = std::rotl(v[0], 32) + v[3];
      v[2] += v[1];
      v[3] = std::rotl(v[3], 21) ^ v[0];
      v[1] = std::rotl(v[1], 17) ^ v[2];
      v[2] = std::rotl(v[2], 32);
    }
  }
  void add(std::uint64_t message) {
    v[3] ^= message;
    rounds(2);
    v[0] ^= message;
  }
};

std::string bytes_of(std::uint64_t value) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(value >> (8 * i) & 0xFFU);
  return out;
}

// A key of the right length from a secret of any.
std::string key_of(const std::string& secret) {
  return bytes_of(siphash("capstan secret 1", secret)) + bytes_of(siphash("capstan secret 2", secret));
}

}  // namespace

std::uint64_t siphash(std::string_view key, std::string_view text) {
  CAPSTAN_ASSERT(key.size() == 16);
  const auto k0 = word(key.substr(0, 8));
  const auto k1 = word(key.substr(8));
  State state{{k0 ^ 0x736f6d6570736575U, k1 ^ 0x646f72616e646f6dU, k0 ^ 0x6c7967656e657261U, k1 ^ 0x7465646279746573U}};
  const auto size = text.size();
  for (; text.size() >= 8; text.remove_prefix(8)) state.add(word(text.substr(0, 8)));
  state.add(static_cast<std::uint64_t>(size) << 56U | word(text));
  state.v[2] ^= 0xFFU;
  state.rounds(4);
  return state.v[0] ^ state.v[1] ^ state.v[2] ^ state.v[3];
}

std::string random_bytes(std::size_t count) {
  std::string out(count, '\0');
  std::size_t done = 0;
  while (done < count) {
    const auto got = ::getrandom(out.data() + done, count - done, 0);
    if (got < 0 && errno != EINTR) throw Error(cat("the system gives no random numbers: ", meaning_of(errno)));
    if (got > 0) done += static_cast<std::size_t>(got);
  }
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
  return bytes_of(siphash(key_of(secret), std::string(end) + nonces.server + nonces.client));
}

}  // namespace capstan::store
