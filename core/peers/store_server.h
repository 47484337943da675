#pragma once
#include <capstan/base/export.h>

#include <memory>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace peers {

/// The ranks' key-value store: a thread that serves every client which proves that it knows the run's secret. All
/// others are disconnected before anything that they say is looked at, and named in the log with their address.
class StoreServer {
 public:
  virtual ~StoreServer() = default;
  virtual int port() const = 0;
};

/// Listens only on this address ("": on all), on `port` (0: a free one). Throws std::system_error.
std::unique_ptr<StoreServer> start_store_server(const std::string& address, int port, std::string secret);

}  // namespace peers
CAPSTAN_END_NAMESPACE
