#pragma once
#include <capstan/base/export.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

CAPSTAN_BEGIN_NAMESPACE

/// The whole file. Throws Error that names the path and the system's reason.
std::string read_file(const std::filesystem::path& path);
/// Writes to a temporary file next to `path` and renames it: readers see the old or the new content, never half of it.
/// A device or a pipe is written through and stays one; a link is replaced, and what it leads to stays as it is.
void write_file(const std::filesystem::path& path, std::string_view content);

/// Copies a file, or a folder with all that is in it. The copies have the rights that this process gives new files, not
/// the original's. Throws Error as read_file and write_file do.
void copy_over(const std::filesystem::path& from, const std::filesystem::path& to);

/// A file mapped read-only; unmapped with the object. Throws Error as read_file does.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

CAPSTAN_END_NAMESPACE
