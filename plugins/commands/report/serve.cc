#include "serve.h"

#include <arpa/inet.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <iomanip>
#include <random>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "table.h"

namespace report {

using namespace capstan;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t most_visitors = 32;
constexpr std::size_t most_asked = 16384;  ///< bytes of a request, which a browser's has at most
constexpr auto patience = 10s;             ///< with a connection that asks for nothing: browsers open some in advance

[[noreturn]] void refused(int port, int error) {
  throw Error(cat("cannot listen on 127.0.0.1:", port, ": ", std::generic_category().message(error)),
              error == EADDRINUSE ? "another program listens there; --port 0 takes a free port" : "", "--port");
}

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

Socket listen_on(int port) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto address = loopback(port);
  const int yes = 1;  // the port of a server that has just ended is free again
  if (socket.fd() < 0 || ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      ::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.fd(), static_cast<int>(most_visitors)) != 0)
    refused(port, errno);
  return socket;
}

int port_of(const Socket& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0) refused(0, errno);
  return ntohs(address.sin_port);
}

// 128 bits, which no other user guesses.
std::string random_word() {
  std::random_device random;
  std::ostringstream word;
  for (int i = 0; i < 4; ++i) word << std::hex << std::setw(8) << std::setfill('0') << random();
  return word.str();
}

// The page may load nothing and runs no script, whatever a run's files made it say.
std::string response(const char* status, const char* more, const std::string& body) {
  return cat("HTTP/1.1 ", status, "\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: ", body.size(),
             "\r\nConnection: close\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n",
             "X-Content-Type-Options: nosniff\r\n",
             "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n", more, "\r\n", body);
}

// Gives up where the browser has gone or does not read.
void send_all(const Socket& socket, std::string_view text) {
  while (!text.empty()) {
    const auto sent = ::send(socket.fd(), text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Socket::Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

PageServer::PageServer(int port) : listener_(listen_on(port)), port_(port_of(listener_)), word_(random_word()) {}

std::string PageServer::address() const { return cat("http://127.0.0.1:", port_, "/", word_); }

void PageServer::turn(const Page& page, std::chrono::milliseconds wait) {
  std::vector<pollfd> waiting{{listener_.fd(), POLLIN, 0}};
  for (const auto& visitor : visitors_) waiting.push_back({visitor.socket.fd(), POLLIN, 0});
  if (::poll(waiting.data(), waiting.size(), static_cast<int>(wait.count())) < 0) return;
  const auto now = std::chrono::steady_clock::now();
  std::vector<Visitor> stay;
  for (std::size_t i = 0; i < visitors_.size(); ++i) {
    auto& visitor = visitors_[i];
    const bool stays = waiting[i + 1].revents != 0 ? listen_to(visitor, page) : now - visitor.since < patience;
    if (stays) stay.push_back(std::move(visitor));
  }
  visitors_ = std::move(stay);
  if (waiting.front().revents != 0) accept_one();
}

void PageServer::accept_one() {
  Socket socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.fd() < 0) return;
  const timeval limit{2, 0};
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (visitors_.size() == most_visitors) visitors_.erase(visitors_.begin());
  visitors_.push_back({std::move(socket), {}, std::chrono::steady_clock::now()});
}

// False: the connection is done with.
bool PageServer::listen_to(Visitor& visitor, const Page& page) const {
  std::array<char, 4096> part{};
  const auto came = ::recv(visitor.socket.fd(), part.data(), part.size(), MSG_DONTWAIT);
  if (came < 0) return errno == EINTR || errno == EAGAIN;
  visitor.asked.append(part.data(), static_cast<std::size_t>(came));
  if (came == 0 || visitor.asked.size() > most_asked) return false;
  if (visitor.asked.find("\r\n\r\n") == std::string::npos) return true;
  send_all(visitor.socket, answer_to(visitor.asked, page));
  return false;
}

std::string PageServer::answer_to(const std::string& asked, const Page& page) const {
  if (!asked.starts_with(cat("GET /", word_, " HTTP/1."))) return response("404 Not Found", "", "not here\n");
  constexpr auto* again = "Refresh: 5\r\n";  // the browser loads it again in 5 s, and keeps its place
  try {
    return response("200 OK", again, page());
  } catch (const Error& error) {
    return response("500 Internal Server Error", again, cat("<pre>", html_text(error.what()), "</pre>\n"));
  }
}

}  // namespace report
