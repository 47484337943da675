#include "comm/nccl.h"

namespace capstan::comm {

DeviceGroup::~DeviceGroup() = default;
NcclFactory::~NcclFactory() = default;

}  // namespace capstan::comm
