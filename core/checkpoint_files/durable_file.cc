#include "checkpoint/durable_file.h"

#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/disk_wait.h"

namespace capstan::checkpoint {

DiskFull::~DiskFull() = default;

std::int64_t free_bytes(const std::filesystem::path& folder) {
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0 || info.f_blocks == 0) return -1;
  return static_cast<std::int64_t>(info.f_bavail) * static_cast<std::int64_t>(info.f_frsize);
}

void throw_file_error(const std::filesystem::path& path, const char* verb, int error_number) {
  if (error_number == EDQUOT) {
    throw DiskFull(cat("cannot ", verb, " it: your disk quota there is used up"),
                   "delete what is no longer needed, or write to another file system", path.string());
  }
  if (error_number == ENOSPC) {
    const auto left = free_bytes(path.parent_path());
    throw DiskFull(cat("cannot ", verb, " it: no space is left on its file system",
                       left < 0 ? "" : cat(" (", bytes_text(static_cast<double>(left)), " free)")),
                   "free some space there, or write to another file system", path.string());
  }
  throw FileError(path, verb, error_number);
}

DurableFile::DurableFile(std::filesystem::path path) : path_(std::move(path)), temporary_(path_) {
  temporary_ += ".tmp" + std::to_string(::getpid());
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("create");
}

DurableFile::~DurableFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void DurableFile::fail(const char* verb) const { throw_file_error(path_, verb, errno); }

void DurableFile::write(const void* data, std::size_t size) {
  const DiskWait at_disk("writing", path_);
  const auto* next = static_cast<const char*>(data);
  while (size > 0) {
    // Linux writes at most 2 GiB a call.
    const auto written = ::write(fd_, next, std::min<std::size_t>(size, std::size_t{1} << 30));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write");
    next += written;
    size -= static_cast<std::size_t>(written);
  }
}

void DurableFile::finish() {
  const DiskWait at_disk("syncing", path_);
  if (::fsync(fd_) != 0) fail("sync");
  // Some file systems (NFS) report only here that the disk is full.
  const int fd = fd_;
  fd_ = -1;
  const bool closed = ::close(fd) == 0;
  if (closed && ::rename(temporary_.c_str(), path_.c_str()) == 0) return;
  const int reason = errno;
  ::unlink(temporary_.c_str());
  throw_file_error(path_, closed ? "rename" : "close", reason);
}

void write_durable(const std::filesystem::path& path, const std::string& text) {
  DurableFile file(path);
  file.write(text.data(), text.size());
  file.finish();
  sync_folder(std::filesystem::absolute(path).parent_path());
}

void sync_folder(const std::filesystem::path& folder) {
  const DiskWait at_disk("syncing", folder);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw_file_error(folder, "open", errno);
  const int result = ::fsync(fd);
  const int reason = errno;
  ::close(fd);
  // Some network file systems return an error for syncing a folder: there is nothing else to do for durable renames.
  if (result != 0 && reason != EINVAL && reason != ENOTSUP) throw_file_error(folder, "sync", reason);
}

}  // namespace capstan::checkpoint
