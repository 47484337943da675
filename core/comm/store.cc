#include "comm/store.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <c10/util/Logging.h>

#include "comm/store_handle.h"

C10_DECLARE_int(caffe2_log_level);

namespace capstan::comm {
namespace {

constexpr auto holder_is_gone = "rank 0's process holds it: see why that ended, or whether its node can be reached";

/// Runs a call of c10d's store; what it throws becomes an Error without a stack trace.
template <class F>
auto guarded(const F& call) -> decltype(call()) {
  try {
    return call();
  } catch (const c10::Error& error) {
    throw Error(cat("the ranks' store does not answer: ", error.what_without_backtrace()), holder_is_gone);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(cat("the ranks' store does not answer: ", error.what()), holder_is_gone);
  }
}

/// c10d warns with a stack trace about each connection that a dead peer closes, which hides the actual error. A level
/// that the user chose (TORCH_CPP_LOG_LEVEL) is kept.
void quiet_lost_connections() {
  if (FLAGS_caffe2_log_level == c10::GLOG_WARNING) FLAGS_caffe2_log_level = c10::GLOG_ERROR;
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

std::vector<std::uint8_t> bytes(const std::string& text) { return {text.begin(), text.end()}; }
std::string text(const std::vector<std::uint8_t>& data) { return {data.begin(), data.end()}; }

}  // namespace

Store::Store(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
Store::~Store() = default;

std::unique_ptr<Store> Store::serve(const std::string& host, int port, const std::string& prefix) {
  quiet_lost_connections();
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.isServer = true;
  options.waitWorkers = false;
  const QuietAttempt quiet;
  try {
    auto server = c10::make_intrusive<c10d::TCPStore>(host, options);
    auto store = c10::make_intrusive<c10d::PrefixStore>(prefix, server);
    return std::unique_ptr<Store>(new Store(std::make_unique<Handle>(Handle{server, store})));
  } catch (const c10::Error& error) {
    const std::string reason = error.what_without_backtrace();
    if (reason.find("EADDRINUSE") == std::string::npos) throw Error(cat("cannot open the ranks' store: ", reason));
    throw Error(cat("port ", port, " for the ranks' rendezvous is already taken on ", host),
                "set MASTER_PORT to a free port, or unset MASTER_ADDR and MASTER_PORT: Capstan then finds one itself");
  }
}

std::unique_ptr<Store> Store::connect(const std::string& host, int port, const std::string& prefix,
                                      std::chrono::milliseconds timeout) {
  quiet_lost_connections();
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.waitWorkers = false;
  options.timeout = timeout;
  const QuietAttempt quiet;
  return guarded([&] {
    auto client = c10::make_intrusive<c10d::TCPStore>(host, options);
    client->setTimeout(c10d::Store::kDefaultTimeout);
    auto store = c10::make_intrusive<c10d::PrefixStore>(prefix, client);
    return std::unique_ptr<Store>(new Store(std::make_unique<Handle>(Handle{client, store})));
  });
}

std::unique_ptr<Store> Store::clone() const {
  return guarded([&] {
    return std::unique_ptr<Store>(new Store(std::make_unique<Handle>(Handle{nullptr, handle_->store->clone()})));
  });
}

int Store::port() const {
  CAPSTAN_ASSERT(handle_->server);
  return handle_->server->getPort();
}

void Store::set(const std::string& key, const std::string& value) {
  guarded([&] { handle_->store->set(key, bytes(value)); });
}

std::string Store::get(const std::string& key) {
  return guarded([&] { return text(handle_->store->get(key)); });
}

std::vector<std::string> Store::get(const std::vector<std::string>& keys) {
  std::vector<std::string> values;
  values.reserve(keys.size());
  guarded([&] {
    for (const auto& value : handle_->store->multiGet(keys)) values.push_back(text(value));
  });
  return values;
}

bool Store::has(const std::vector<std::string>& keys) {
  return guarded([&] { return handle_->store->check(keys); });
}

std::string Store::set_if_absent(const std::string& key, const std::string& value) {
  return guarded([&] { return text(handle_->store->compareSet(key, std::vector<std::uint8_t>{}, bytes(value))); });
}

}  // namespace capstan::comm
