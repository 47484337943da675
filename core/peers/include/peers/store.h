#pragma once
#include <capstan/base/export.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace peers {

/// A connection to the ranks' key-value store. Each thread that talks to the store has its own clone(), because a call
/// may block the connection. Every call throws Error when the store does not answer.
class Store {
 public:
  virtual ~Store();

  virtual std::unique_ptr<Store> clone() const = 0;
  /// The port that the store's server listens on.
  virtual int port() const = 0;

  virtual void set(const std::string& key, const std::string& value) = 0;
  /// The values of keys that exist.
  virtual std::vector<std::string> get(const std::vector<std::string>& keys) = 0;
  /// Whether all of them exist.
  virtual bool has(const std::vector<std::string>& keys) = 0;
  /// Sets a key that has the value `expected`, or that does not exist if `expected` is empty; returns its value now,
  /// and `expected` if there is none.
  virtual std::string compare_and_set(const std::string& key, const std::string& expected,
                                      const std::string& desired) = 0;
  /// Adds to a number, which is 0 at first; returns the sum.
  virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
  virtual void append(const std::string& key, const std::string& value) = 0;
  /// Returns whether the key existed.
  virtual bool erase(const std::string& key) = 0;
  /// How many keys exist.
  virtual std::int64_t count() = 0;

  std::string get(const std::string& key);
  /// Sets the key unless it exists; returns its value now.
  std::string set_if_absent(const std::string& key, const std::string& value);
};

/// Starts the store's server in this process, on `port` of the interface that has the address `host` (0: a free one),
/// and connects to it; the server ends with the object. Throws Error when the port is taken. `everywhere`: on all
/// interfaces, since ranks may know this host by other addresses.
std::unique_ptr<Store> serve_store(const std::string& host, int port, const std::string& prefix,
                                   const std::string& secret = {}, bool everywhere = false);

/// Connects to a server, both of which prove to each other that they know the secret; keeps trying for `limit`.
std::unique_ptr<Store> connect_store(const std::string& host, int port, const std::string& prefix,
                                     std::chrono::milliseconds limit, const std::string& secret = {});

/// How a store that another program runs is reached: torchrun's agent has one, which knows no secrets.
class ForeignStores {
 public:
  virtual ~ForeignStores() = default;
  /// Connects; keeps trying for `limit`.
  virtual std::unique_ptr<Store> connect(const std::string& host, int port, const std::string& prefix,
                                         std::chrono::milliseconds limit) const = 0;
};

}  // namespace peers
CAPSTAN_END_NAMESPACE
