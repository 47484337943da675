#pragma once
#include <capstan_catch.h>
#include <dlfcn.h>

#include <filesystem>
#include <string>

namespace test {

/// Opens a file of lib/capstan/plugins, say "strategy/fp8.so", for the operators that it registers: a test that has the
/// plugin's code compiled in, which exports nothing, calls them too.
inline void open_plugin(const std::string& file) {
  const auto build = std::filesystem::canonical("/proc/self/exe").parent_path().parent_path();
  const bool open = ::dlopen((build / "lib/capstan/plugins" / file).c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr;
  INFO(file << ": " << (open ? "" : ::dlerror()));
  REQUIRE(open);
}

}  // namespace test
