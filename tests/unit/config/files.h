#pragma once
#include <capstan/base/error.h>

#include <filesystem>
#include <string>

#include "support/errors.h"
#include "support/folder.h"

namespace test {

/// A folder with configuration files. Tests stand in it (as a user does), so that messages show short names.
class WorkingFolder : public Folder {
 public:
  WorkingFolder() : before_(std::filesystem::current_path()) { std::filesystem::current_path(path()); }
  ~WorkingFolder() {
    std::error_code ignored;
    std::filesystem::current_path(before_, ignored);
  }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;

 private:
  std::filesystem::path before_;
};

inline std::string text(const capstan::Diagnostics& diagnostics) {
  std::string out;
  for (const auto& diagnostic : diagnostics.list()) out += diagnostic.text() + "\n";
  return out;
}

}  // namespace test
