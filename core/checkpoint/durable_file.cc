#include "checkpoint/durable_file.h"

#include <capstan/base/error.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace capstan::checkpoint {
namespace {

[[noreturn]] void fail_on(const std::filesystem::path& path, const char* verb) {
  throw Error(std::string("cannot ") + verb + " it: " + std::strerror(errno), {}, path.string());
}

}  // namespace

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

void DurableFile::fail(const char* verb) const { fail_on(path_, verb); }

void DurableFile::write(const void* data, std::size_t size) {
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
  if (::fsync(fd_) != 0) fail("sync");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename");
  // From here on nothing is left to undo, whatever close says.
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) fail("close");
}

void sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail_on(folder, "open");
  const int result = ::fsync(fd);
  const int reason = errno;
  ::close(fd);
  errno = reason;
  // Some network file systems cannot sync a folder and say so: their renames are durable or nothing helps.
  if (result != 0 && reason != EINVAL && reason != ENOTSUP) fail_on(folder, "sync");
}

}  // namespace capstan::checkpoint
