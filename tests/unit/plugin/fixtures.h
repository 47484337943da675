#pragma once
#include <filesystem>
#include <string>

#include "plugin/loader.h"
#include "support/errors.h"
#include "support/folder.h"

namespace test {

inline std::filesystem::path fixture_folder() { return CAPSTAN_FIXTURE_DIR; }
/// A broken or good plugin of tests/fixtures.
inline std::filesystem::path fixture(const std::string& name) { return fixture_folder() / "monitor" / (name + ".so"); }

inline std::string load_error(const std::string& name) {
  return error_of([&] { capstan::plugin::load_plugin_file(fixture(name), "monitor"); });
}

}  // namespace test
