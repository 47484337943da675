#include "peers/network.h"

#include <capstan_catch.h>

namespace network_test {

namespace {
using namespace capstan;         // NOLINT(google-build-using-namespace)
using namespace capstan::peers;  // NOLINT(google-build-using-namespace)

TEST_CASE("network: addresses of this host") {
  CHECK(resolve("localhost").front() == "127.0.0.1");  // IPv4 first, whatever the system prefers
  CHECK(resolve("127.0.0.1") == std::vector<std::string>{"127.0.0.1"});
  CHECK(resolve("::1") == std::vector<std::string>{"::1"});
  CHECK(address_towards("127.0.0.1") == "127.0.0.1");
  CHECK(address_of_interface("lo") == "127.0.0.1");
  CHECK(address_towards("::1") == "::1");
  CHECK(address_towards("nonsense").empty());
  CHECK_FALSE(own_addresses().empty());
  CHECK_THROWS_WITH(resolve("no-such-host.invalid"),
                    Contains("the rendezvous host 'no-such-host.invalid' is unknown") && Contains("check MASTER_ADDR"));
  CHECK_THROWS_WITH(address_of_interface("ib7"),
                    Contains("there is no network interface 'ib7' with an address") && Contains("this host has lo"));
}

}  // namespace

}  // namespace network_test
