#include "my_plugin.h"

#include <capstan/testing.h>
#include <capstan_catch.h>

using namespace my_plugin_plugin;
using Ids = std::vector<std::int64_t>;

namespace {

std::shared_ptr<const capstan::tokenizer::Tokenizer> opened(const std::string& alphabet) {
  capstan::config::Section section{"tokenizer", {}, {}};
  section.entries.push_back({"alphabet", alphabet, {}});
  capstan::Diagnostics diagnostics;
  const MyPlugin plugin{{section, diagnostics}};
  diagnostics.throw_if_any();
  return plugin.open({});
}

}  // namespace

TEST_CASE("it does what every tokenizer promises") {
  CHECK(capstan::testing::tokenizer_breaches(*opened("ab "), {"abba"}) == "");
}

TEST_CASE("a character of the alphabet is a token, upper case is lower case, and what it lacks is unknown") {
  const auto tokenizer = opened("ab ");
  CHECK(tokenizer->vocab_size() == 6);
  CHECK(tokenizer->encode("Ab c") == Ids{3, 4, 5, MyPluginCharacters::unknown});
  CHECK(tokenizer->decode({3, 4, 5, MyPluginCharacters::unknown, MyPluginCharacters::end, MyPluginCharacters::pad}) ==
        "ab \uFFFD");
}

TEST_CASE("every text has ids below the size of the vocabulary") {
  const auto tokenizer = opened("xyz");
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  for (const auto id : tokenizer->encode(bytes)) CHECK((id >= 0 && id < tokenizer->vocab_size()));
}

TEST_CASE("an alphabet with a character twice is refused") { CHECK_THROWS_AS(opened("aba"), capstan::Error); }
