#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

/// No space is left, on the disk or of the user's quota.
class DiskFull : public Error {
 public:
  using Error::Error;
  ~DiskFull() override;
};

/// Throws FileError for a failed system call on this file: "<path>: cannot write it: <reason>". ENOSPC and EDQUOT
/// become DiskFull, which says how much is free and where.
[[noreturn]] void throw_file_error(const std::filesystem::path& path, const char* verb, int error_number);
/// Bytes that this user may still write to the file system of an existing folder; -1 if it is unknown.
std::int64_t free_bytes(const std::filesystem::path& folder);

/// A file being written next to its final name; finish() makes it appear there, complete and on disk.
class DurableFile {
 public:
  explicit DurableFile(std::filesystem::path path);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;
  void write(const void* data, std::size_t size);
  void finish();

 private:
  [[noreturn]] void fail(const char* verb) const;
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
};

/// Writes a small text file and its name durably; readers see the old or the new text.
void write_durable(const std::filesystem::path& path, const std::string& text);
/// Makes the names in a folder durable, after files were created or renamed in it.
void sync_folder(const std::filesystem::path& folder);

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
