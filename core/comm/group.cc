#include <capstan/comm/communicator.h>
#include <capstan/comm/group.h>

namespace capstan::comm {

Pending::~Pending() = default;
Group::~Group() = default;
Communicator::~Communicator() = default;

}  // namespace capstan::comm
