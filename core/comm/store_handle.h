#pragma once
// The one header that exposes c10d's store: for the files that make c10d backends from it.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "comm/store.h"

CAPSTAN_BEGIN_NAMESPACE
namespace comm {

struct Store::Handle {
  c10::intrusive_ptr<c10d::TCPStore> server;  ///< what knows the port; null in a clone
  c10::intrusive_ptr<c10d::Store> store;      ///< with the prefix
};

}  // namespace comm
CAPSTAN_END_NAMESPACE
