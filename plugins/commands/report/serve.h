#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace report {

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

/// One page for browsers on this machine: HTTP on 127.0.0.1, a GET for each connection, which is then closed. The
/// page's address has a random word, since every user of a machine, and every page that a browser shows, can reach its
/// loopback; all else is answered with 404. One thread.
class PageServer {
 public:
  /// Makes the page, each time that it is asked for. An Error that it throws is the page.
  using Page = std::function<std::string()>;

  /// Port 0: a free one. Throws Error where the port is not free.
  explicit PageServer(int port);
  int port() const { return port_; }
  /// "http://127.0.0.1:8265/3f9a…"
  std::string address() const;
  /// Waits for something to do, at most this long, and does it. A browser that says nothing, or reads nothing for some
  /// seconds, is given up and holds up no other.
  void turn(const Page& page, std::chrono::milliseconds wait);

 private:
  /// A connection whose request has not come whole.
  struct Visitor {
    Socket socket;
    std::string asked;
    std::chrono::steady_clock::time_point since;
  };
  void accept_one();
  bool listen_to(Visitor& visitor, const Page& page) const;
  std::string answer_to(const std::string& asked, const Page& page) const;

  Socket listener_;
  int port_ = 0;
  std::string word_;
  std::vector<Visitor> visitors_;
};

}  // namespace report
