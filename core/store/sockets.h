#pragma once
#include <capstan/base/export.h>

#include <chrono>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace store {

/// A descriptor that is closed with its owner.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  int fd() const { return fd_; }

 private:
  int fd_;
};

/// Listens on an address ("": all of this host's) and port (0: a free one), without blocking. Throws std::system_error.
Socket listen_on(const std::string& address, int port);
int port_of(const Socket& listener);
/// A waiting connection, which does not block, and "address:port" of its other end; fd() is -1 where there is none.
Socket accept_from(const Socket& listener, std::string& peer);
/// Connects; throws std::system_error (ETIMEDOUT after so long).
Socket connect_to(const std::string& address, int port, std::chrono::milliseconds limit);

/// Reads what has come, but `in` grows to `most` bytes at most. False: the other end has closed, or the connection
/// broke.
bool receive(const Socket& socket, std::string& in, std::size_t most);
/// Sends the beginning of `out` that the system takes now, and removes it. False: the connection broke.
bool send_some(const Socket& socket, std::string& out);
/// Sends all, or reads exactly so many bytes; throws std::system_error.
void send_all(const Socket& socket, std::string out, std::chrono::milliseconds limit);
std::string receive_exactly(const Socket& socket, std::size_t count, std::chrono::milliseconds limit);

}  // namespace store
CAPSTAN_END_NAMESPACE
