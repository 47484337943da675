#include "plugin/side_library.h"

#include <capstan/base/error.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <dlfcn.h>

#include <map>
#include <mutex>

#include "plugin/abi.h"
#include "plugin/loader.h"

namespace capstan::plugin {
namespace {

using DoorEntry = const void*();

const void* open_door(const std::string& name) {
  const auto file = own_library().parent_path() / cat("libcapstan_", name, ".so");
  if (!is_there(file)) {
    throw Error("a part of Capstan is missing, which this command needs",
                cat("install it next to libcapstan.so, or build the target capstan_", name), file.string());
  }
  check_engine_abi(file);
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw open_error(file.string(), ::dlerror());  // NOLINT(concurrency-mt-unsafe): this thread's
  const auto entry = reinterpret_cast<DoorEntry*>(::dlsym(handle, cat("capstan_", name).c_str()));
  if (entry == nullptr) throw Error("is not a part of this Capstan", "build and install it again", file.string());
  return entry();
}

}  // namespace

const void* side_library(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, const void*> doors;
  const std::lock_guard lock(mutex);
  const auto found = doors.find(name);
  return found != doors.end() ? found->second : doors.emplace(name, open_door(name)).first->second;
}

}  // namespace capstan::plugin
