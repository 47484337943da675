#include <capstan/base/error.h>
#include <capstan/base/files.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

namespace capstan {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const char* verb) {
  throw Error(std::string("cannot ") + verb + " it: " + std::strerror(errno), {}, path.string());
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in || std::filesystem::is_directory(path)) {
    if (in) errno = EISDIR;
    fail(path, "read");
  }
  std::ostringstream content;
  content << in.rdbuf();
  if (in.bad()) fail(path, "read");
  return std::move(content).str();
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  auto temporary = path;
  temporary += ".tmp" + std::to_string(::getpid());
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    if (!out) fail(temporary, "write");
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    out.flush();
    if (!out) fail(temporary, "write");
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) fail(path, "write");
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(path, "open");
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    ::close(fd);
    fail(path, "stat");
  }
  size_ = static_cast<std::size_t>(info.st_size);
  if (size_ > 0) {
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    ::close(fd);
    if (address == MAP_FAILED) fail(path, "map");
    data_ = static_cast<const std::byte*>(address);
  } else {
    ::close(fd);
  }
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace capstan
