#include "comm/torchrun_store.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <utility>

C10_DECLARE_int(caffe2_log_level);

namespace capstan::comm {
namespace {

/// Runs a call of c10d's store; what it throws becomes an Error without a stack trace.
template <class F>
auto guarded(const F& call) -> decltype(call()) {
  try {
    return call();
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

c10::intrusive_ptr<c10d::Store> tcp_store(const std::string& host, int port, std::chrono::milliseconds timeout) {
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

class TorchrunStore final : public peers::Store {
 public:
  TorchrunStore(c10::intrusive_ptr<c10d::Store> store, int port) : store_(std::move(store)), port_(port) {}

  std::unique_ptr<Store> clone() const override {
    return guarded([&] { return std::make_unique<TorchrunStore>(store_->clone(), port_); });
  }
  int port() const override { return port_; }
  void set(const std::string& key, const std::string& value) override {
    guarded([&] { store_->set(key, value); });
  }
  std::vector<std::string> get(const std::vector<std::string>& keys) override {
    std::vector<std::string> values;
    guarded([&] {
      for (const auto& value : store_->multiGet(keys)) values.emplace_back(value.begin(), value.end());
    });
    return values;
  }
  bool has(const std::vector<std::string>& keys) override {
    return guarded([&] { return store_->check(keys); });
  }
  std::string compare_and_set(const std::string& key, const std::string& expected,
                              const std::string& desired) override {
    return guarded([&] { return store_->compareSet(key, expected, desired); });
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    return guarded([&] { return store_->add(key, amount); });
  }
  void append(const std::string& key, const std::string& value) override {
    guarded([&] { store_->append(key, {value.begin(), value.end()}); });
  }
  bool erase(const std::string& key) override {
    return guarded([&] { return store_->deleteKey(key); });
  }
  std::int64_t count() override {
    return guarded([&] { return store_->getNumKeys(); });
  }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  int port_;
};

class TorchrunStores final : public peers::ForeignStores {
 public:
  std::unique_ptr<peers::Store> connect(const std::string& host, int port, const std::string& prefix,
                                        std::chrono::milliseconds limit) const override {
    return guarded([&] {
      auto store = c10::make_intrusive<c10d::PrefixStore>(prefix, tcp_store(host, port, limit));
      return std::make_unique<TorchrunStore>(std::move(store), port);
    });
  }
};

}  // namespace

const peers::ForeignStores& torchrun_stores() {
  static const TorchrunStores stores;
  return stores;
}

}  // namespace capstan::comm
