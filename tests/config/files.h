#pragma once
#include <capstan/base/error.h>
#include <capstan/base/files.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace test {

/// A folder with configuration files, removed with the object. Tests stand in it (as a user does), so that
/// messages show short names.
class Folder {
 public:
  Folder() : before_(std::filesystem::current_path()) {
    std::string name = (std::filesystem::temp_directory_path() / "capstan-test-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("mkdtemp");
    path_ = name;
    std::filesystem::current_path(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::current_path(before_, ignored);
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    capstan::write_file(path_ / name, content);
  }

 private:
  std::filesystem::path before_;
  std::filesystem::path path_;
};

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

inline std::string text(const capstan::Diagnostics& diagnostics) {
  std::string out;
  for (const auto& diagnostic : diagnostics.list()) out += diagnostic.text() + "\n";
  return out;
}

}  // namespace test
