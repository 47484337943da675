#include "plugins/commands/report/serve.h"

#include <arpa/inet.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/errors.h"

namespace serve_test {

using namespace report;
using namespace std::chrono_literals;
using capstan::cat;

namespace {

// A connection to an address of this machine; of no descriptor where nothing listens there.
Socket connected_to(std::uint32_t host, int port) {
  Socket socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(host);
  return ::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? std::move(socket)
                                                                                                  : Socket();
}

Socket connected(int port) {
  auto socket = connected_to(INADDR_LOOPBACK, port);
  REQUIRE(socket.fd() >= 0);
  return socket;
}

void say(const Socket& socket, const std::string& text) {
  REQUIRE(::send(socket.fd(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
}

// What comes until the server closes; the server takes its turns meanwhile. "(open)" where it does not.
std::string heard(const Socket& socket, PageServer& server, const PageServer::Page& page) {
  std::string all;
  for (int turns = 0; turns < 50; ++turns) {
    server.turn(page, 20ms);
    std::array<char, 4096> part{};
    for (;;) {
      const auto came = ::recv(socket.fd(), part.data(), part.size(), MSG_DONTWAIT);
      if (came == 0) return all;
      if (came < 0) break;
      all.append(part.data(), static_cast<std::size_t>(came));
    }
  }
  return all + "(open)";
}

std::string got(
    PageServer& server, const std::string& request, const PageServer::Page& page = [] { return "PAGE"; }) {
  const auto socket = connected(server.port());
  say(socket, request);
  return heard(socket, server, page);
}

// The page's path, with its random word.
std::string path_of(const PageServer& server) {
  const auto address = server.address();
  return address.substr(address.find('/', 7));
}

}  // namespace

TEST_CASE("a GET of the page's address gets the page as it is then, to be loaded again, and the connection closes") {
  PageServer server(0);
  CHECK_THAT(server.address(), Catch::Matchers::StartsWith(cat("http://127.0.0.1:", server.port(), "/")));
  int asked = 0;
  const auto page = [&] { return cat("page ", ++asked); };
  const auto request = cat("GET ", path_of(server), " HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto first = got(server, request, page);
  CHECK(first.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 6\r\n"));
  CHECK_THAT(first, Contains("\r\nRefresh: 5\r\n") && Contains("default-src 'none'") && Contains("no-store"));
  CHECK(first.ends_with("\r\n\r\npage 1"));
  CHECK(got(server, request, page).ends_with("\r\n\r\npage 2"));
}

TEST_CASE("nothing else is there: another path, the word cut off or continued, another method") {
  PageServer server(0);
  const auto path = path_of(server);
  CHECK(path.size() == 33);  // 128 bits
  for (const auto& line :
       {std::string("GET / HTTP/1.1"), "GET " + path.substr(0, 32) + " HTTP/1.1", "GET " + path + "0 HTTP/1.1",
        "GET " + path + "/../x HTTP/1.1", "POST " + path + " HTTP/1.1", std::string("x")}) {
    INFO(line);
    const auto answer = got(server, line + "\r\n\r\n");
    CHECK(answer.starts_with("HTTP/1.1 404 Not Found\r\n"));
    CHECK_THAT(answer, !Contains("PAGE") && !Contains(path.substr(1)));
  }
}

TEST_CASE("a connection that says nothing, little or too much holds up no other") {
  PageServer server(0);
  const auto page = [] { return "PAGE"; };
  const auto silent = connected(server.port());
  const auto slow = connected(server.port());
  say(slow, "GET ");
  { const auto gone = connected(server.port()); }
  const auto request = cat("GET ", path_of(server), " HTTP/1.1\r\n\r\n");
  CHECK(got(server, request).ends_with("PAGE"));
  CHECK_THAT(got(server, std::string(30000, 'x')), !Contains("PAGE") && !Contains("(open)"));
  std::vector<Socket> many;
  for (int i = 0; i < 40; ++i) {  // the first of them are given up
    many.push_back(connected(server.port()));
    server.turn(page, 20ms);
  }
  CHECK(got(server, request).ends_with("PAGE"));
  char none = 0;
  CHECK(::recv(many.front().fd(), &none, 1, MSG_DONTWAIT) == 0);  // closed
  CHECK(::recv(many.back().fd(), &none, 1, MSG_DONTWAIT) < 0);
}

TEST_CASE("what is wrong with a run is the page, as text, until it is right again") {
  PageServer server(0);
  const auto page = []() -> std::string { throw capstan::Error("<b> is cut off"); };
  const auto answer = got(server, cat("GET ", path_of(server), " HTTP/1.1\r\n\r\n"), page);
  CHECK(answer.starts_with("HTTP/1.1 500 "));
  CHECK_THAT(answer, Contains("\r\nRefresh: 5\r\n") && Contains("<pre>&lt;b&gt; is cut off</pre>"));
}

TEST_CASE("it listens on this machine's loopback only, and a port that is taken is a fault with its fix") {
  const PageServer server(0);
  CHECK(connected_to(INADDR_LOOPBACK, server.port()).fd() >= 0);
  CHECK(connected_to(INADDR_LOOPBACK + 1, server.port()).fd() < 0);  // 127.0.0.2
  const PageServer other(0);
  CHECK(path_of(server) != path_of(other));
  CHECK_THAT(test::error_of([&] { PageServer(server.port()); }),
             Contains(cat("127.0.0.1:", server.port())) && Contains("--port 0 takes a free port"));
}

}  // namespace serve_test
