#include "peers/sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace capstan::peers {
namespace {

using SocketClock = std::chrono::steady_clock;

[[noreturn]] void fail(int reason, const char* doing) {
  throw std::system_error(reason, std::generic_category(), doing);
}

AddressList find_address(const std::string& address, int port, int flags) {
  int status = 0;
  auto list = look_up(address, port, flags, status);
  if (!list) fail(EADDRNOTAVAIL, "its address is unknown");
  return list;
}

Descriptor open_socket(const addrinfo& of) {
  Descriptor made(::socket(of.ai_family, of.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, of.ai_protocol));
  if (made.fd() < 0) fail(errno, "no socket can be made");
  return made;
}

void set_option(const Descriptor& socket, int level, int name, int value) {
  (void)::setsockopt(socket.fd(), level, name, &value, sizeof value);
}

void await(const Descriptor& socket, short events, SocketClock::time_point until) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - SocketClock::now()).count();
    if (left <= 0) fail(ETIMEDOUT, "no answer in time");
    pollfd wanted{socket.fd(), events, 0};
    const int ready = ::poll(&wanted, 1, static_cast<int>(std::min<long>(left, 60000)));
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) fail(errno, "cannot wait for the connection");
  }
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}
Descriptor::Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

AddressList look_up(const std::string& host, int port, int flags, int& status) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  status = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  return {status == 0 ? list : nullptr, freeaddrinfo};
}

Descriptor listen_on(const std::string& address, int port) {
  if (address.empty()) {
    try {
      return listen_on("::", port);  // takes connections of both families
    } catch (const std::system_error& error) {
      if (error.code().value() == EADDRINUSE) throw;
      return listen_on("0.0.0.0", port);  // a host without IPv6
    }
  }
  const auto found = find_address(address, port, AI_PASSIVE);
  auto listener = open_socket(*found);
  set_option(listener, SOL_SOCKET, SO_REUSEADDR, 1);
  if (found->ai_family == AF_INET6) set_option(listener, IPPROTO_IPV6, IPV6_V6ONLY, address == "::" ? 0 : 1);
  if (::bind(listener.fd(), found->ai_addr, found->ai_addrlen) != 0) fail(errno, "cannot take the port");
  constexpr int waiting = 4096;
  if (::listen(listener.fd(), waiting) != 0) fail(errno, "cannot listen");
  return listener;
}

int port_of(const Descriptor& listener) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&own), &size) != 0) fail(errno, "it has no port");
  return ntohs(own.ss_family == AF_INET ? reinterpret_cast<sockaddr_in&>(own).sin_port
                                        : reinterpret_cast<sockaddr_in6&>(own).sin6_port);
}

Descriptor accept_from(const Descriptor& listener, std::string& peer) {
  sockaddr_storage other{};
  socklen_t size = sizeof other;
  auto* address = reinterpret_cast<sockaddr*>(&other);
  Descriptor accepted(::accept4(listener.fd(), address, &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (accepted.fd() < 0) return accepted;
  set_option(accepted, IPPROTO_TCP, TCP_NODELAY, 1);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  const int failed =
      getnameinfo(address, size, host.data(), host.size(), port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV);
  peer = failed != 0 ? "an unknown address:0" : std::string(host.data()) + ":" + port.data();
  return accepted;
}

Descriptor connect_to(const std::string& address, int port, std::chrono::milliseconds limit) {
  const auto until = SocketClock::now() + limit;
  const auto found = find_address(address, port, 0);
  auto made = open_socket(*found);
  set_option(made, IPPROTO_TCP, TCP_NODELAY, 1);
  if (::connect(made.fd(), found->ai_addr, found->ai_addrlen) == 0) return made;
  if (errno != EINPROGRESS && errno != EINTR) fail(errno, "cannot connect");
  await(made, POLLOUT, until);
  int reason = 0;
  socklen_t size = sizeof reason;
  if (::getsockopt(made.fd(), SOL_SOCKET, SO_ERROR, &reason, &size) != 0) reason = errno;
  if (reason != 0) fail(reason, "cannot connect");
  return made;
}

bool receive(const Descriptor& socket, std::string& in, std::size_t most) {
  std::array<char, 65536> part{};
  while (in.size() < most) {
    const auto got = ::recv(socket.fd(), part.data(), std::min(part.size(), most - in.size()), 0);
    if (got > 0) {
      in.append(part.data(), static_cast<std::size_t>(got));
    } else if (got == 0) {
      return false;
    } else if (errno != EINTR) {
      return errno == EAGAIN || errno == EWOULDBLOCK;
    }
  }
  return true;
}

bool send_some(const Descriptor& socket, std::string& out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const auto sent = ::send(socket.fd(), out.data() + done, out.size() - done, MSG_NOSIGNAL);
    if (sent >= 0) {
      done += static_cast<std::size_t>(sent);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      return false;
    }
  }
  out.erase(0, done);
  return true;
}

void send_all(const Descriptor& socket, std::string out, std::chrono::milliseconds limit) {
  const auto until = SocketClock::now() + limit;
  while (!out.empty()) {
    if (!send_some(socket, out)) fail(ECONNRESET, "the connection broke");
    if (!out.empty()) await(socket, POLLOUT, until);
  }
}

std::string receive_exactly(const Descriptor& socket, std::size_t count, std::chrono::milliseconds limit) {
  const auto until = SocketClock::now() + limit;
  std::string in;
  while (in.size() < count) {
    const bool open = receive(socket, in, count);
    if (in.size() == count) break;
    if (!open) fail(ECONNRESET, "the connection was closed");
    await(socket, POLLIN, until);
  }
  return in;
}

}  // namespace capstan::peers
