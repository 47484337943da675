#include <capstan/base/text.h>

namespace capstan {

std::string version() { return CAPSTAN_VERSION; }

}  // namespace capstan
