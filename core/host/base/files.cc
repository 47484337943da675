#include <capstan/base/files.h>
#include <capstan/base/paths.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <mutex>
#include <utility>

#include "base/disk_wait.h"
#include "base/mapped_files.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;

// A descriptor that is closed with the object, unless close() was called.
class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags, const char* verb) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (fd_ < 0) throw FileError(path, verb, errno);
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return fd_; }
  bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

// Some file systems say only when a file is closed that there was no room for it.
void write_all(const fs::path& path, std::string_view content) {
  // A pipe that no process reads would let its writer wait for ever; one that is read is waited for.
  Descriptor file(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK, "write");
  (void)::fcntl(file.number(), F_SETFL, 0);
  while (!content.empty()) {
    const auto written = ::write(file.number(), content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw FileError(path, "write", written < 0 ? errno : ENOSPC);
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  if (!file.close()) throw FileError(path, "write", errno);
}

// A device or a pipe is written through: a file in its place would be neither any more. A link is not: it may lead to a
// file that must not be replaced.
bool is_written_through(const fs::path& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return false;
  return !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode) && !S_ISLNK(info.st_mode);
}

// A pipe that no process writes to would let its reader wait for ever, and a device has no end.
void refuse_endless(const Descriptor& file, const fs::path& path) {
  struct stat info {};
  if (::fstat(file.number(), &info) != 0) throw FileError(path, "look at", errno);
  if (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)) return;
  throw Error("it is a pipe or a device, not a file", "write its content to a file first", path.string());
}

// All mapped files by their last byte's address. Never destroyed: mapped files may outlive what is static.
struct MappedFiles {
  struct Range {
    const std::byte* begin;
    fs::path file;
  };
  std::mutex mutex;
  std::map<const std::byte*, Range> by_last;
};

MappedFiles& mapped_files() {
  static auto* const all = new MappedFiles;
  return *all;
}

}  // namespace

std::string read_file(const fs::path& path) {
  const DiskWait at_disk("reading", path);
  constexpr std::size_t part = 1 << 16;
  const Descriptor file(path, O_RDONLY | O_NONBLOCK, "read");
  refuse_endless(file, path);
  std::string content;
  for (;;) {
    const auto size = content.size();
    content.resize(size + part);
    const auto got = ::read(file.number(), content.data() + size, part);
    const int reason = errno;
    content.resize(size + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return content;
    if (got < 0 && reason != EINTR) throw FileError(path, "read", reason);
  }
}

void write_file(const fs::path& path, std::string_view content) {
  const DiskWait at_disk("writing", path);
  if (is_written_through(path)) return write_all(path, content);
  auto temporary = path;
  temporary += ".tmp" + std::to_string(::getpid());
  try {
    write_all(temporary, content);
    if (std::rename(temporary.c_str(), path.c_str()) != 0) throw FileError(path, "write", errno);
  } catch (const FileError& error) {
    ::unlink(temporary.c_str());
    throw FileError(path, "write", error.error_number());
  }
}

void copy_over(const fs::path& from, const fs::path& to) {
  if (!is_folder(from)) return write_file(to, read_file(from));
  std::error_code error;
  fs::create_directories(to, error);
  if (error) throw FileError(to, "make", error.value());
  for (const auto& entry : entries_of(from)) copy_over(entry, to / entry.filename());
}

MappedFile::MappedFile(const fs::path& path) {
  const Descriptor file(path, O_RDONLY | O_NONBLOCK, "open");
  refuse_endless(file, path);
  struct stat info {};
  if (::fstat(file.number(), &info) != 0) throw FileError(path, "look at", errno);
  if (S_ISDIR(info.st_mode)) throw FileError(path, "map", EISDIR);
  size_ = static_cast<std::size_t>(info.st_size);
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (address == MAP_FAILED) throw FileError(path, "map", errno);
  data_ = static_cast<const std::byte*>(address);
  auto& all = mapped_files();
  const std::lock_guard guard(all.mutex);
  all.by_last.insert_or_assign(data_ + size_ - 1, MappedFiles::Range{data_, path});
}

MappedFile::~MappedFile() {
  if (!data_) return;
  auto& all = mapped_files();
  {
    const std::lock_guard guard(all.mutex);
    all.by_last.erase(data_ + size_ - 1);
  }
  ::munmap(const_cast<std::byte*>(data_), size_);
}

std::optional<MappedByte> mapped_byte_at(const void* address) {
  const auto* byte = static_cast<const std::byte*>(address);
  auto& all = mapped_files();
  const std::lock_guard guard(all.mutex);
  const auto found = all.by_last.lower_bound(byte);
  if (found == all.by_last.end() || byte < found->second.begin) return {};
  return MappedByte{found->second.file, static_cast<std::size_t>(byte - found->second.begin)};
}

}  // namespace capstan
