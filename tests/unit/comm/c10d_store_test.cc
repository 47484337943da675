#include "comm/c10d_store.h"

#include <capstan_catch.h>

#include <chrono>

namespace c10d_store_test {

using namespace capstan;
using namespace std::chrono_literals;

TEST_CASE("c10d's view of the ranks' store: its keys are those of the store, and it waits for them") {
  const auto store = peers::serve_store("127.0.0.1", 0, "x", "secret");
  const auto view = comm::as_c10d(*store);
  view->set("text", "a");
  view->append("text", {'b'});
  CHECK(store->get("text") == "ab");
  CHECK(view->get_to_str("text") == "ab");
  CHECK(view->compareSet("text", "ab", "c") == "c");
  CHECK(view->add("number", 2) == 2);
  view->multiSet({"one", "two"}, {{'1'}, {'2'}});
  CHECK(view->multiGet({"one", "two"}) == std::vector<std::vector<std::uint8_t>>{{'1'}, {'2'}});
  CHECK(view->getNumKeys() == 4);
  CHECK(view->deleteKey("one"));
  CHECK(view->clone()->check({"two"}));
  CHECK_THROWS_WITH(view->wait({"one", "two"}, 1ms), "no rank has set one, two in time");
}

}  // namespace c10d_store_test
