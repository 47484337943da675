#pragma once
#include <capstan/base/export.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace comm {

/// The key-value store for the rendezvous (c10d's TCPStore with a key prefix). One thread per object: each thread
/// that talks to the store has its own clone(), because a call may block the connection. Every call throws Error
/// when the store does not answer.
class Store {
 public:
  /// Starts the store's server in this process, on `port` of all interfaces (0: a free one), and connects to it as
  /// `host`. Throws Error when the port is taken.
  static std::unique_ptr<Store> serve(const std::string& host, int port, const std::string& prefix);
  /// Connects to a server; keeps trying for `timeout`.
  static std::unique_ptr<Store> connect(const std::string& host, int port, const std::string& prefix,
                                        std::chrono::milliseconds timeout);
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
