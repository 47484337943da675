#pragma once
#include <capstan/base/export.h>

#include <cstdint>

CAPSTAN_BEGIN_NAMESPACE
namespace monitor {

/// Bytes of this process that are in memory now; 0 where the system does not say.
std::int64_t resident_bytes();
/// The most that it has been so far, never below what resident_bytes() has said: every peak of a CPU rank's memory that
/// a run tells is this number.
std::int64_t peak_resident_bytes();

}  // namespace monitor
CAPSTAN_END_NAMESPACE
