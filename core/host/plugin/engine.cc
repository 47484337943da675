#include "plugin/engine.h"

#include <capstan/base/error.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <dlfcn.h>

#include <boost/dll/shared_library.hpp>
#include <filesystem>
#include <mutex>

#include "plugin/abi.h"
#include "plugin/loader.h"

namespace capstan::plugin {
namespace {

using EngineEntry = const Engine*();

std::filesystem::path engine_file() { return own_library().parent_path() / "libcapstan_engine.so"; }

boost::dll::shared_library open_library(const std::filesystem::path& file) {
  using boost::dll::load_mode::rtld_global;
  using boost::dll::load_mode::rtld_now;
  try {
    // Global, as if the program were linked with it: one definition of each symbol of LibTorch counts for all.
    return boost::dll::shared_library(boost::filesystem::path(file.string()), rtld_now | rtld_global);
  } catch (const std::exception& error) {
    throw open_error(file.string(), error.what());
  }
}

const Engine& open_beside() {
  const auto file = engine_file();
  if (!is_there(file)) {
    throw Error("the engine is missing, which this command needs",
                "install it next to libcapstan.so, or build the target capstan_engine_library", file.string());
  }
  check_engine_abi(file);
  if (!engine_is_there()) refuse_torch_before_engine();
  // Never closed, as plugins are: its objects may be anywhere until the process ends.
  static auto& library = *new boost::dll::shared_library(open_library(file));
  return *library.get<EngineEntry>("capstan_engine")();
}

}  // namespace

const Engine& open_engine() {
  static std::mutex mutex;
  static const Engine* engine = nullptr;
  const std::lock_guard lock(mutex);
  if (engine == nullptr) engine = &open_beside();
  return *engine;
}

bool engine_is_there() {
  void* handle = ::dlopen(engine_file().c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle != nullptr) ::dlclose(handle);
  return handle != nullptr;
}

}  // namespace capstan::plugin
