#include "diagnosis/door.h"

#include "diagnosis/nonfinite.h"
#include "diagnosis/replica_check.h"

namespace capstan::diagnosis {
namespace {

constexpr Door the_door{compare_replicas, explain};

}  // namespace
}  // namespace capstan::diagnosis

extern "C" [[gnu::visibility("default")]] const void* capstan_diagnosis() { return &capstan::diagnosis::the_door; }
