#pragma once
// The one header that exposes c10d's store: for the files that make c10d backends from it.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <memory>

#include "comm/store.h"
#include "comm/store_server.h"

CAPSTAN_BEGIN_NAMESPACE
namespace comm {

struct Store::Handle {
  std::unique_ptr<StoreServer> server;    ///< null where another process has it
  c10::intrusive_ptr<c10d::Store> store;  ///< with the prefix
};

}  // namespace comm
CAPSTAN_END_NAMESPACE
