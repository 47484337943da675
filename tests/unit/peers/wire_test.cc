#include "peers/wire.h"

#include <capstan_catch.h>

namespace wire_test {

using namespace capstan::peers;

TEST_CASE("messages of the store come back as they were, and what is none is refused") {
  const Texts texts{"set", "", std::string("a\0b", 3)};
  const auto bytes = packed(texts);
  CHECK(message_length(bytes) == bytes.size() - 4);
  CHECK(unpacked(std::string_view(bytes).substr(4)) == texts);
  CHECK_FALSE(unpacked("abc"));
  CHECK_FALSE(unpacked(std::string_view("\xff\xff\xff\xff", 4)));
}

}  // namespace wire_test
