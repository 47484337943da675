#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <string>

#include "launch/launch.h"

namespace launch_hostlist_test {

using capstan::join;
using capstan::launch::expand_hostlist;

TEST_CASE("launch: host lists") {
  const auto expanded = [](const std::string& text) { return join(expand_hostlist(text), " "); };
  CHECK(expanded("localhost") == "localhost");
  CHECK(expanded("a,b7") == "a b7");
  CHECK(expanded("n[1-3]") == "n1 n2 n3");
  CHECK(expanded("n[08-11,3]") == "n08 n09 n10 n11 n3");
  CHECK(expanded("n[1-2]-ib,login") == "n1-ib n2-ib login");
  CHECK(expanded("r[1-2]n[1-2].x") == "r1n1.x r1n2.x r2n1.x r2n2.x");
  CHECK(expanded("n[7]") == "n7");
  for (const char* bad : {"n[1-2", "n1]", "n[[1]]", "n[2-1]", "n[a-b]", "n[]", "a,,b", "n[1-2-3]"}) {
    CHECK_THROWS_WITH(expand_hostlist(bad), Contains("the host list '"));
  }
}

}  // namespace launch_hostlist_test
