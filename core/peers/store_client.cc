// The store of Capstan's own server, which may be in this process.
#include <capstan/base/error.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "peers/proof.h"
#include "peers/sockets.h"
#include "peers/store.h"
#include "peers/store_server.h"
#include "peers/wire.h"

namespace capstan::peers {
namespace {

using ClientClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The server answers at once; its process may be suspended for a while.
constexpr milliseconds answer_limit{300000};

/// What a call of the client throws becomes an Error.
template <class F>
auto guarded(const F& call) -> decltype(call()) {
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(cat("the ranks' store does not answer: ", error.what()),
                "rank 0's process holds it: see why that ended, or whether its node can be reached");
  }
}

std::int64_t number_of(const Texts& answer) { return answer.empty() ? 0 : std::stoll(answer.front()); }

/// What every connection to one server shares.
struct ServerPlace {
  std::string address;
  int port = 0;
  std::string prefix;
  std::string secret;
};

/// A call waits for the one before.
class StoreClient final : public Store {
 public:
  StoreClient(ServerPlace place, milliseconds limit, std::unique_ptr<StoreServer> server)
      : place_(std::move(place)), server_(std::move(server)), socket_(connected(limit)) {}

  std::unique_ptr<Store> clone() const override {
    constexpr milliseconds limit{60000};
    return guarded([&] { return std::make_unique<StoreClient>(place_, limit, nullptr); });
  }
  int port() const override { return place_.port; }

  void set(const std::string& key, const std::string& value) override { ask("set", {key}, {value}); }
  std::vector<std::string> get(const std::vector<std::string>& keys) override {
    auto values = ask("get", keys);
    if (values.size() != keys.size()) throw Error(cat("the ranks' store does not have all of ", join(keys)));
    return values;
  }
  bool has(const std::vector<std::string>& keys) override { return number_of(ask("check", keys)) == 1; }
  std::string compare_and_set(const std::string& key, const std::string& expected,
                              const std::string& desired) override {
    const auto answer = ask("compare", {key}, {expected, desired});
    return answer.empty() ? std::string() : answer.front();
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    return number_of(ask("add", {key}, {std::to_string(amount)}));
  }
  void append(const std::string& key, const std::string& value) override { ask("append", {key}, {value}); }
  bool erase(const std::string& key) override { return number_of(ask("erase", {key})) > 0; }
  std::int64_t count() override { return number_of(ask("count", {})); }

 private:
  /// A connection whose ends have proved to each other that they know the secret.
  Descriptor connected(milliseconds limit) const {
    constexpr milliseconds between{50};
    const auto until = ClientClock::now() + limit;
    for (;;) {
      try {
        const auto left = std::chrono::duration_cast<milliseconds>(until - ClientClock::now());
        auto socket = connect_to(place_.address, place_.port, std::max(left, between));
        prove(socket, std::max(left, between));
        return socket;
      } catch (const std::system_error& error) {
        if (ClientClock::now() + between > until)
          throw std::runtime_error(cat(place_.address, ":", place_.port, ": ", error.what()));
      }
      std::this_thread::sleep_for(between);
    }
  }

  void prove(const Descriptor& socket, milliseconds limit) const {
    const auto hello = receive_exactly(socket, greeting.size() + Nonces::size, limit);
    if (!hello.starts_with(greeting)) throw std::runtime_error("who answers there is no store of Capstan's");
    const Nonces nonces{hello.substr(greeting.size()), random_bytes(Nonces::size)};
    send_all(socket, nonces.client + proof(place_.secret, "client", nonces), limit);
    if (!is_proof(receive_exactly(socket, proof_bytes, limit), place_.secret, "server", nonces))
      throw std::runtime_error("who answers there does not know this run's secret");
  }

  Texts ask(const char* verb, const std::vector<std::string>& keys, const std::vector<std::string>& values = {}) {
    Texts request{verb};
    for (const auto& key : keys) request.push_back(cat(place_.prefix, "/", key));
    request.insert(request.end(), values.begin(), values.end());
    return guarded([&] { return answer_to(request); });
  }

  Texts answer_to(const Texts& request) {
    const std::scoped_lock lock(mutex_);
    send_all(socket_, packed(request), answer_limit);
    const auto size = message_length(receive_exactly(socket_, 4, answer_limit));
    auto answer = size > longest_message ? std::nullopt : unpacked(receive_exactly(socket_, size, answer_limit));
    if (!answer) throw std::runtime_error("its answer is none");
    return std::move(*answer);
  }

  const ServerPlace place_;
  const std::unique_ptr<StoreServer> server_;  // null where another process has it
  std::mutex mutex_;
  Descriptor socket_;
};

}  // namespace

Store::~Store() = default;

std::string Store::get(const std::string& key) { return get(std::vector<std::string>{key}).front(); }

std::string Store::set_if_absent(const std::string& key, const std::string& value) {
  return compare_and_set(key, {}, value);
}

std::unique_ptr<Store> serve_store(const std::string& host, int port, const std::string& prefix,
                                   const std::string& secret, bool everywhere) {
  constexpr std::chrono::seconds to_itself{30};
  std::unique_ptr<StoreServer> server;
  try {
    server = start_store_server(everywhere ? "" : host, port, secret);
  } catch (const std::system_error& error) {
    const int reason = error.code().value();
    if (reason == EADDRNOTAVAIL && !everywhere)
      return serve_store(host, port, prefix, secret, true);  // a container's host
    if (reason != EADDRINUSE)
      throw Error(cat("cannot open the ranks' store on ", host, ", port ", port, ": ", meaning_of(reason)));
    throw Error(cat("port ", port, " for the ranks' rendezvous is already taken on ", host),
                "set MASTER_PORT to a free port, or unset MASTER_ADDR and MASTER_PORT: Capstan then finds one itself");
  }
  const ServerPlace here{host, server->port(), prefix, secret};
  return guarded([&] { return std::make_unique<StoreClient>(here, to_itself, std::move(server)); });
}

std::unique_ptr<Store> connect_store(const std::string& host, int port, const std::string& prefix, milliseconds limit,
                                     const std::string& secret) {
  return guarded([&] {
    return std::make_unique<StoreClient>(ServerPlace{host, port, prefix, secret}, limit, nullptr);
  });
}

}  // namespace capstan::peers
