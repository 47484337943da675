#include <capstan/base/copy_over.h>
#include <capstan/base/files.h>
#include <capstan/base/paths.h>

namespace capstan {
namespace fs = std::filesystem;

void copy_over(const fs::path& from, const fs::path& to) {
  if (!is_folder(from)) return write_file(to, read_file(from));
  std::error_code error;
  fs::create_directories(to, error);
  if (error) throw FileError(to, "make", error.value());
  for (const auto& entry : entries_of(from)) copy_over(entry, to / entry.filename());
}

}  // namespace capstan
