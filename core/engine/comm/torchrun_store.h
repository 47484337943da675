#pragma once
#include <capstan/base/export.h>

#include "peers/store.h"

CAPSTAN_BEGIN_NAMESPACE
namespace comm {

/// How the store of torchrun's agent is reached, which is c10d's TCPStore.
const peers::ForeignStores& torchrun_stores();

}  // namespace comm
CAPSTAN_END_NAMESPACE
