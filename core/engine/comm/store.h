#pragma once
#include <capstan/base/export.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace comm {

/// What lets this process into a store.
struct Access {
  std::string secret;     ///< the run's
  bool is_torch = false;  ///< torchrun's agent runs the store, which knows no secrets: c10d's TCPStore
};

/// The key-value store for the rendezvous (StoreServer's, or c10d's TCPStore, with a key prefix). One thread per
/// object: each thread that talks to the store has its own clone(), because a call may block the connection. Every call
/// throws Error when the store does not answer.
class Store {
 public:
  /// Starts the store's server in this process, on `port` of the interface that has the address `host` (0: a free one),
  /// and connects to it. Throws Error when the port is taken. `everywhere`: on all interfaces, since ranks may know
  /// this host by other addresses.
  static std::unique_ptr<Store> serve(const std::string& host, int port, const std::string& prefix,
                                      const std::string& secret = {}, bool everywhere = false);
  /// Connects to a server; keeps trying for `timeout`.
  static std::unique_ptr<Store> connect(const std::string& host, int port, const std::string& prefix,
                                        std::chrono::milliseconds timeout, const Access& access = {});
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  std::unique_ptr<Store> clone() const;
  int port() const;

  void set(const std::string& key, const std::string& value);
  /// The values of keys that exist.
  std::string get(const std::string& key);
  std::vector<std::string> get(const std::vector<std::string>& keys);
  /// Whether all of them exist.
  bool has(const std::vector<std::string>& keys);
  /// Sets the key unless it exists; returns its value now.
  std::string set_if_absent(const std::string& key, const std::string& value);

  struct Handle;  ///< c10d's object, in store_handle.h
  const Handle& handle() const { return *handle_; }

 private:
  explicit Store(std::unique_ptr<Handle> handle);
  std::unique_ptr<Handle> handle_;
};

}  // namespace comm
CAPSTAN_END_NAMESPACE
