#include "peers/store.h"

#include <capstan_catch.h>

namespace store_test {

using namespace capstan::peers;

TEST_CASE("values, clones, and the first to set a key") {
  const auto store = serve_store("127.0.0.1", 0, "test");
  const auto clone = store->clone();
  const auto client = connect_store("127.0.0.1", store->port(), "test", std::chrono::seconds(5));
  const std::string binary("a\0b\n", 4);
  store->set("k", binary);
  CHECK(clone->get("k") == binary);
  CHECK(client->has({"k"}));
  CHECK_FALSE(client->has({"k", "missing"}));
  CHECK(client->set_if_absent("first", "one") == "one");
  CHECK(clone->set_if_absent("first", "two") == "one");
  CHECK(store->get(std::vector<std::string>{"first", "k"}) == std::vector<std::string>{"one", binary});
  CHECK_FALSE(connect_store("127.0.0.1", store->port(), "other", std::chrono::seconds(5))->has({"k"}));
}

}  // namespace store_test
