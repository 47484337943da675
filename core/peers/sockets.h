#pragma once
#include <capstan/base/export.h>

#include <netdb.h>

#include <chrono>
#include <memory>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace peers {

/// A descriptor that is closed with its owner.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  int fd() const { return fd_; }

 private:
  int fd_;
};

/// getaddrinfo's list for a stream; null, and why not as gai_strerror says it, for an unknown host.
using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;
AddressList look_up(const std::string& host, int port, int flags, int& status);

/// Listens on an address ("": all of this host's) and port (0: a free one), without blocking. Throws std::system_error.
Descriptor listen_on(const std::string& address, int port);
int port_of(const Descriptor& listener);
/// A waiting connection, which does not block, and "address:port" of its other end; fd() is -1 where there is none.
Descriptor accept_from(const Descriptor& listener, std::string& peer);
/// Connects; throws std::system_error (ETIMEDOUT after `limit`).
Descriptor connect_to(const std::string& address, int port, std::chrono::milliseconds limit);

/// Reads what has come, but `in` grows to `most` bytes at most. False: the other end has closed, or the connection
/// broke.
bool receive(const Descriptor& socket, std::string& in, std::size_t most);
/// Sends the beginning of `out` that the system takes now, and removes it. False: the connection broke.
bool send_some(const Descriptor& socket, std::string& out);
/// Sends all, or reads exactly `count` bytes; throws std::system_error.
void send_all(const Descriptor& socket, std::string out, std::chrono::milliseconds limit);
std::string receive_exactly(const Descriptor& socket, std::size_t count, std::chrono::milliseconds limit);

}  // namespace peers
CAPSTAN_END_NAMESPACE
