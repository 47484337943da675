#pragma once
#include <capstan/base/export.h>

#include <cstddef>
#include <filesystem>

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

/// A file being written beside its final name; it appears there, complete and on disk, with finish(), or never.
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

/// Makes the names in a folder durable (what was created or renamed in it).
void sync_folder(const std::filesystem::path& folder);

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
