#include "peers/sockets.h"

#include <capstan_catch.h>

#include <system_error>

namespace sockets_test {

using namespace capstan::peers;
using namespace std::chrono_literals;

namespace {

struct Pair {
  Descriptor listener = listen_on("127.0.0.1", 0);
  Descriptor here = connect_to("127.0.0.1", port_of(listener), 5s);
  std::string peer;
  Descriptor there = accept_from(listener, peer);
};

int number_of(const std::system_error& error) { return error.code().value(); }

}  // namespace

TEST_CASE("no more is read than was asked for, and a silent peer is waited for no longer than the limit") {
  const Pair pair;
  CHECK_THAT(pair.peer, Contains("127.0.0.1:"));
  send_all(pair.here, "hello world", 5s);
  CHECK(receive_exactly(pair.there, 5, 5s) == "hello");
  std::string in = "x";
  CHECK(receive(pair.there, in, 4));
  CHECK(in == "x wo");
  CHECK(receive_exactly(pair.there, 3, 5s) == "rld");
  try {
    receive_exactly(pair.there, 1, 10ms);
    FAIL("nobody has sent anything");
  } catch (const std::system_error& error) {
    CHECK(number_of(error) == ETIMEDOUT);
  }
}

TEST_CASE("a connection that its other end has closed in the middle of a message is broken") {
  Pair pair;
  send_all(pair.here, "half", 5s);
  pair.here = Descriptor();
  try {
    receive_exactly(pair.there, 8, 5s);
    FAIL("half was sent");
  } catch (const std::system_error& error) {
    CHECK(number_of(error) == ECONNRESET);
  }
}

TEST_CASE("a port that another listens on, and one that nobody does, are told by their numbers") {
  auto taken = listen_on("127.0.0.1", 0);
  const int port = port_of(taken);
  CHECK_THROWS_AS(listen_on("127.0.0.1", port), std::system_error);
  std::string peer;
  CHECK(accept_from(taken, peer).fd() < 0);
  taken = Descriptor();
  CHECK_THROWS_AS(connect_to("127.0.0.1", port, 5s), std::system_error);
}

}  // namespace sockets_test
