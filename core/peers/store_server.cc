#include "peers/store_server.h"

#include <capstan/base/error.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <list>
#include <map>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "peers/proof.h"
#include "peers/sockets.h"
#include "peers/wire.h"

namespace capstan::peers {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds time_to_prove{5};
constexpr std::size_t most_unproven = 256;  // at once; more strangers than that push each other out

struct Connection {
  Descriptor socket;
  std::string peer;
  Nonces nonces;
  Clock::time_point since = Clock::now();
  bool proven = false;
  std::string in;
  std::string out;
};

// Strangers in the log: each address once a minute, so that a flood of them does not fill a disk.
class Strangers {
 public:
  void refuse(const std::string& peer, const char* why) {
    constexpr std::chrono::minutes between{1};
    constexpr std::size_t most_addresses = 100;
    const auto address = peer.substr(0, peer.rfind(':'));
    const auto now = Clock::now();
    const auto known = said_.find(address);
    if (known == said_.end() ? said_.size() >= most_addresses : now - known->second < between) return;
    said_[address] = now;
    log::warning(cat("a connection from ", peer, " to the ranks' store was refused: ", why));
  }

 private:
  std::map<std::string, Clock::time_point> said_;
};

// The keys, and what a request does with them.
class Keys {
 public:
  // Nothing: no request.
  std::optional<Texts> answer(const Texts& request) {
    if (request.empty()) return {};
    const auto& verb = request[0];
    if (verb == "check") return Texts{all_there(request) ? "1" : "0"};
    if (verb == "get") return values(request);
    if (verb == "count") return Texts{cat(values_.size())};
    if (verb == "erase" && request.size() == 2) return Texts{cat(values_.erase(request[1]))};
    if (verb == "compare" && request.size() == 4) return Texts{compare(request)};
    return request.size() == 3 ? change(request) : std::nullopt;
  }

 private:
  std::optional<Texts> change(const Texts& request) {
    auto& value = values_[request[1]];
    if (request[0] == "set") return value = request[2], Texts{};
    if (request[0] == "append") return value += request[2], Texts{};
    if (request[0] == "add") return Texts{add(value, request[2])};
    return {};
  }
  bool all_there(const Texts& request) const {
    return std::all_of(request.begin() + 1, request.end(), [&](const auto& key) { return values_.contains(key); });
  }
  // Nothing at all unless all are there.
  Texts values(const Texts& request) const {
    Texts out;
    if (!all_there(request)) return out;
    for (std::size_t i = 1; i < request.size(); ++i) out.push_back(values_.at(request[i]));
    return out;
  }
  std::string compare(const Texts& request) {
    const auto found = values_.find(request[1]);
    if (found == values_.end()) return request[2].empty() ? values_[request[1]] = request[3] : request[2];
    if (found->second == request[2]) found->second = request[3];
    return found->second;
  }
  static std::string add(std::string& value, const std::string& amount) {
    const auto number = [](const std::string& text) {
      std::int64_t read = 0;
      std::from_chars(text.data(), text.data() + text.size(), read);
      return read;
    };
    return value = cat(number(value) + number(amount));
  }
  std::map<std::string, std::string> values_;
};

class ServerLoop final : public StoreServer {
 public:
  ServerLoop(const std::string& address, int port, std::string secret)
      : secret_(std::move(secret)), wake_(::eventfd(0, EFD_CLOEXEC)) {
    listeners_.push_back(listen_on(address, port));
    if (address == "127.0.0.1") add_other_loopback();
    thread_ = std::thread([this] { run(); });
  }
  ~ServerLoop() override {
    const std::uint64_t one = 1;
    (void)!::write(wake_.fd(), &one, sizeof one);
    thread_.join();
  }
  ServerLoop(const ServerLoop&) = delete;
  ServerLoop& operator=(const ServerLoop&) = delete;
  int port() const override { return port_of(listeners_.front()); }

 private:
  // "localhost" is one of the two, and it is not known which one a rank takes.
  void add_other_loopback() {
    try {
      listeners_.push_back(listen_on("::1", port_of(listeners_.front())));
    } catch (const std::system_error&) {
      log::debug("the ranks' store has no IPv6 loopback address");
    }
  }

  std::vector<pollfd> wanted_events() const {
    std::vector<pollfd> wanted{{wake_.fd(), POLLIN, 0}};
    for (const auto& listener : listeners_) wanted.push_back({listener.fd(), POLLIN, 0});
    for (const auto& each : connections_) {
      const auto events = static_cast<short>(each.out.empty() ? POLLIN : POLLIN | POLLOUT);
      wanted.push_back({each.socket.fd(), events, 0});
    }
    return wanted;
  }

  void run() {
    for (;;) {
      auto wanted = wanted_events();
      constexpr int look_ms = 1000;  // at those that never prove anything
      if (::poll(wanted.data(), wanted.size(), look_ms) < 0 && errno != EINTR) return;
      if (wanted[0].revents != 0) return;
      auto index = 1 + listeners_.size();
      for (auto each = connections_.begin(); each != connections_.end(); ++index) {
        const bool stays = wanted[index].revents == 0 ? !is_late(*each) : serve(*each);
        each = stays ? std::next(each) : connections_.erase(each);
      }
      for (std::size_t i = 0; i < listeners_.size(); ++i) {
        if (wanted[1 + i].revents != 0) accept_one(listeners_[i]);
      }
    }
  }

  bool is_late(const Connection& connection) {
    if (connection.proven || Clock::now() - connection.since < time_to_prove) return false;
    strangers_.refuse(connection.peer, "it did not prove in time that it knows this run's secret");
    return true;
  }

  void accept_one(const Descriptor& listener) {
    Connection fresh;
    fresh.socket = accept_from(listener, fresh.peer);
    if (fresh.socket.fd() < 0) return;
    const auto unproven = [](const Connection& each) { return !each.proven; };
    if (static_cast<std::size_t>(std::count_if(connections_.begin(), connections_.end(), unproven)) >= most_unproven)
      connections_.erase(std::find_if(connections_.begin(), connections_.end(), unproven));
    fresh.nonces.server = random_bytes(Nonces::size);
    fresh.out = std::string(greeting) + fresh.nonces.server;
    connections_.push_back(std::move(fresh));
    if (!flush(connections_.back())) connections_.pop_back();
  }

  // False: the connection has ended, or is a stranger's.
  bool serve(Connection& connection) {
    if (!connection.proven && !prove(connection)) return false;
    if (!connection.proven) return true;
    if (!receive(connection.socket, connection.in, longest_message + 4)) return false;
    std::string_view rest = connection.in;
    while (rest.size() >= 4) {
      const auto size = message_length(rest);
      if (size > longest_message) return false;
      if (rest.size() - 4 < size) break;
      const auto request = unpacked(rest.substr(4, size));
      const auto answer = request ? keys_.answer(*request) : std::nullopt;
      if (!answer) return false;
      connection.out += packed(*answer);
      rest.remove_prefix(4 + size);
    }
    connection.in.erase(0, connection.in.size() - rest.size());
    return flush(connection);
  }

  // Reads no more of an unproven peer than its proof.
  bool prove(Connection& connection) {
    constexpr auto expected = Nonces::size + proof_bytes;
    const bool open = receive(connection.socket, connection.in, expected);
    if (connection.in.size() < expected) {
      if (!open) strangers_.refuse(connection.peer, "it left without proving that it knows this run's secret");
      return open;
    }
    connection.nonces.client = connection.in.substr(0, Nonces::size);
    if (!is_proof(connection.in.substr(Nonces::size), secret_, "client", connection.nonces)) {
      strangers_.refuse(connection.peer, "it does not know this run's secret");
      return false;
    }
    connection.in.clear();
    connection.proven = true;
    connection.out += proof(secret_, "server", connection.nonces);
    return flush(connection);
  }

  static bool flush(Connection& connection) { return send_some(connection.socket, connection.out); }

  const std::string secret_;
  std::vector<Descriptor> listeners_;
  Descriptor wake_;
  Keys keys_;
  Strangers strangers_;
  std::list<Connection> connections_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<StoreServer> start_store_server(const std::string& address, int port, std::string secret) {
  return std::make_unique<ServerLoop>(address, port, std::move(secret));
}

}  // namespace capstan::peers
