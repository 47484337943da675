#pragma once
#include <capstan/base/export.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <mutex>

#include "comm/sockets.h"
#include "comm/wire.h"

CAPSTAN_BEGIN_NAMESPACE
namespace comm {

/// c10d's view of a StoreServer, for the backends that are made from it. Every call throws when the server does not
/// answer. Thread-safe, but a call waits for the one before; clone() gives a connection of its own.
class StoreClient final : public c10d::Store {
 public:
  /// Connects and proves that it knows the secret; the server must prove the same. Keeps trying for `limit`.
  StoreClient(std::string address, int port, std::string secret, std::chrono::milliseconds limit);

  c10::intrusive_ptr<c10d::Store> clone() override;
  using c10d::Store::set;
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  using c10d::Store::compareSet;
  std::vector<std::uint8_t> compareSet(const std::string& key, const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& desired) override;
  std::vector<std::uint8_t> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;
  void append(const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::vector<std::uint8_t>> multiGet(const std::vector<std::string>& keys) override;
  void multiSet(const std::vector<std::string>& keys, const std::vector<std::vector<std::uint8_t>>& values) override;
  bool hasExtendedApi() const override { return true; }

 private:
  void prove(std::chrono::milliseconds limit);
  Texts ask(const Texts& request);

  const std::string address_;
  const int port_;
  const std::string secret_;
  std::mutex mutex_;
  Descriptor socket_;
};

}  // namespace comm
CAPSTAN_END_NAMESPACE
