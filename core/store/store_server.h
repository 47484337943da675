#pragma once
#include <capstan/base/export.h>

#include <memory>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace store {

/// The ranks' key-value store: a thread that serves everyone who proves that he knows the run's secret. All others are
/// disconnected before anything that they say is looked at, and named in the log with their address.
class StoreServer {
 public:
  /// Listens on this address alone ("": on all), on `port` (0: a free one). Throws Error with the system's reason.
  StoreServer(const std::string& address, int port, std::string secret);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;
  int port() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace store
CAPSTAN_END_NAMESPACE
