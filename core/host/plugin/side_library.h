#pragma once
#include <capstan/base/export.h>

#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace plugin {

/// What the library beside the engine gives of itself: opens libcapstan_<name>.so, which lies next to libcapstan.so,
/// the first time that it is asked for, and returns what its function capstan_<name> returns. The engine is linked with
/// no such library, so that a process that never asks never opens it. Throws Error where the file is missing or was
/// built from another revision than the host. Thread-safe; the file is never closed, as plugins are not.
const void* side_library(const std::string& name);

/// The same as the type that the library's own header declares for its door.
template <class Door>
const Door& door_of(const std::string& name) {
  return *static_cast<const Door*>(side_library(name));
}

}  // namespace plugin
CAPSTAN_END_NAMESPACE
