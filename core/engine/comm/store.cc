#include "comm/store.h"

#include <capstan/base/error.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cerrno>
#include <system_error>
#include <utility>

#include "comm/store_client.h"
#include "comm/store_handle.h"

C10_DECLARE_int(caffe2_log_level);

namespace capstan::comm {
namespace {

/// Runs a call of c10d's store; what it throws becomes an Error without a stack trace.
template <class F>
auto guarded(const F& call) -> decltype(call()) {
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const auto* torch = dynamic_cast<const c10::Error*>(&error);
    throw Error(cat("the ranks' store does not answer: ", torch ? torch->what_without_backtrace() : error.what()),
                "rank 0's process holds it: see why that ended, or whether its node can be reached");
  }
}

/// During its lifetime failed attempts to connect are not logged as errors either: the caller reports them in a line.
class QuietAttempt {
 public:
  QuietAttempt() {
    if (FLAGS_caffe2_log_level == c10::GLOG_ERROR) FLAGS_caffe2_log_level = c10::GLOG_FATAL;
  }
  ~QuietAttempt() { FLAGS_caffe2_log_level = before_; }
  QuietAttempt(const QuietAttempt&) = delete;
  QuietAttempt& operator=(const QuietAttempt&) = delete;

 private:
  const int before_ = FLAGS_caffe2_log_level;
};

c10::intrusive_ptr<c10d::Store> torch_store(const std::string& host, int port, std::chrono::milliseconds timeout) {
  // c10d warns with a stack trace about each connection that a dead peer closes, which hides the actual error. A level
  // that the user chose (TORCH_CPP_LOG_LEVEL) is kept.
  if (FLAGS_caffe2_log_level == c10::GLOG_WARNING) FLAGS_caffe2_log_level = c10::GLOG_ERROR;
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.waitWorkers = false;
  options.timeout = timeout;
  const QuietAttempt quiet;
  auto client = c10::make_intrusive<c10d::TCPStore>(host, options);
  client->setTimeout(c10d::Store::kDefaultTimeout);
  return client;
}

}  // namespace

Store::Store(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
Store::~Store() = default;

std::unique_ptr<Store> Store::serve(const std::string& host, int port, const std::string& prefix,
                                    const std::string& secret, bool everywhere) {
  constexpr std::chrono::seconds to_itself{30};
  std::unique_ptr<StoreServer> server;
  try {
    server = start_store_server(everywhere ? "" : host, port, secret);
  } catch (const std::system_error& error) {
    const int reason = error.code().value();
    if (reason == EADDRNOTAVAIL && !everywhere) return serve(host, port, prefix, secret, true);  // a container's host
    if (reason != EADDRINUSE)
      throw Error(cat("cannot open the ranks' store on ", host, ", port ", port, ": ", meaning_of(reason)));
    throw Error(cat("port ", port, " for the ranks' rendezvous is already taken on ", host),
                "set MASTER_PORT to a free port, or unset MASTER_ADDR and MASTER_PORT: Capstan then finds one itself");
  }
  auto store = connect(host, server->port(), prefix, to_itself, {secret});
  store->handle_->server = std::move(server);
  return store;
}

std::unique_ptr<Store> Store::connect(const std::string& host, int port, const std::string& prefix,
                                      std::chrono::milliseconds timeout, const Access& access) {
  return guarded([&] {
    c10::intrusive_ptr<c10d::Store> client;
    if (access.is_torch) {
      client = torch_store(host, port, timeout);
    } else {
      client = c10::make_intrusive<StoreClient>(host, port, access.secret, timeout);
    }
    auto store = c10::make_intrusive<c10d::PrefixStore>(prefix, client);
    return std::unique_ptr<Store>(new Store(std::make_unique<Handle>(Handle{nullptr, store})));
  });
}

std::unique_ptr<Store> Store::clone() const {
  return guarded([&] {
    return std::unique_ptr<Store>(new Store(std::make_unique<Handle>(Handle{nullptr, handle_->store->clone()})));
  });
}

int Store::port() const {
  CAPSTAN_ASSERT(handle_->server);
  return handle_->server->port();
}

void Store::set(const std::string& key, const std::string& value) {
  guarded([&] { handle_->store->set(key, value); });
}

std::string Store::get(const std::string& key) {
  return guarded([&] { return handle_->store->get_to_str(key); });
}

std::vector<std::string> Store::get(const std::vector<std::string>& keys) {
  std::vector<std::string> values;
  guarded([&] {
    for (const auto& value : handle_->store->multiGet(keys)) values.emplace_back(value.begin(), value.end());
  });
  return values;
}

bool Store::has(const std::vector<std::string>& keys) {
  return guarded([&] { return handle_->store->check(keys); });
}

std::string Store::set_if_absent(const std::string& key, const std::string& value) {
  return guarded([&] { return handle_->store->compareSet(key, std::string(), value); });
}

}  // namespace capstan::comm
