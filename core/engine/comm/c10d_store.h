#pragma once
// The one header that shows c10d's store: for the files that make c10d backends.
#include <capstan/base/export.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "peers/store.h"

CAPSTAN_BEGIN_NAMESPACE
namespace comm {

/// c10d's view of a connection of its own to the ranks' store.
c10::intrusive_ptr<c10d::Store> as_c10d(const peers::Store& store);

}  // namespace comm
CAPSTAN_END_NAMESPACE
