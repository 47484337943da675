#include <capstan/base/philox.h>
#include <capstan_catch.h>

#include <array>
#include <set>

namespace philox_test {

using namespace capstan;

namespace {
std::array<std::uint32_t, 4> words(const PhiloxBlock& block) {
  return {block.word[0], block.word[1], block.word[2], block.word[3]};
}
using Words = std::array<std::uint32_t, 4>;
}  // namespace

// The known answers of the Random123 library (kat_vectors, "philox4x32 10") by the paper's authors.
TEST_CASE("Philox gives the known answers") {
  const std::uint32_t ones = 0xffffffff;
  CHECK(words(philox({{0, 0, 0, 0}}, {{0, 0}})) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(words(philox({{ones, ones, ones, ones}}, {{ones, ones}})) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(words(philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, {{0xa4093822, 0x299f31d0}})) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

// The published test values of FNV-1a (64 bits).
TEST_CASE("the hash of a name is FNV-1a") {
  CHECK(stable_hash("") == 0xcbf29ce484222325u);
  CHECK(stable_hash("a") == 0xaf63dc4c8601ec8cu);
  CHECK(stable_hash("foobar") == 0x85944171f73967e8u);
}

TEST_CASE("a key is its seed, purpose and name") {
  std::set<std::pair<std::uint32_t, std::uint32_t>> keys;
  for (const std::uint64_t seed : {0, 1, 2}) {
    for (const RandomPurpose purpose : {RandomPurpose::initialisation, RandomPurpose::dropout}) {
      for (const char* name : {"wte.weight", "wpe.weight", ""}) {
        const PhiloxKey key = make_key(seed, purpose, name);
        keys.emplace(key.word[0], key.word[1]);
      }
    }
  }
  CHECK(keys.size() == 3 * 2 * 3);
  // Written down because a change would give every seed another meaning.
  const PhiloxKey key = make_key(1, RandomPurpose::initialisation, "wte.weight");
  CHECK((std::uint64_t{key.word[1]} << 32 | key.word[0]) == 0x277625f5c7abe400u);
}

}  // namespace philox_test
