#include <capstan/comm/communicator.h>

namespace capstan::comm {

Communicator::~Communicator() = default;

}  // namespace capstan::comm
