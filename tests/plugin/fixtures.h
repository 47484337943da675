#pragma once
#include <capstan/base/error.h>

#include <filesystem>
#include <string>

#include "plugin/loader.h"

namespace test {

inline std::filesystem::path fixture_folder() { return CAPSTAN_FIXTURE_DIR; }
/// A broken or good plugin of tests/fixtures.
inline std::filesystem::path fixture(const std::string& name) { return fixture_folder() / "monitor" / (name + ".so"); }

/// The message of the Error that fn throws; "" when it throws none.
template <class F>
std::string error_of(F&& fn) {
  try {
    fn();
  } catch (const capstan::Error& error) {
    return error.what();
  }
  return {};
}

inline std::string load_error(const std::string& name) {
  return error_of([&] { capstan::plugin::load_plugin_file(fixture(name), "monitor"); });
}

/// A folder that is removed with the object.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "capstan-test-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace test
