#include "peers/failure_note.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace capstan::peers {

FailureNote::FailureNote() : fd_(::memfd_create("capstan-failure", 0)) {
  if (fd_ < 0) throw Error(cat("cannot make memory that ranks share: ", std::strerror(errno)));
}

FailureNote::~FailureNote() { ::close(fd_); }

void FailureNote::write(int rank, const std::string& host, const std::string& message) const {
  const auto text = Failure{rank, host, message}.serialized();
  // It fits in one page: readers see all of it, or nothing.
  [[maybe_unused]] const auto written =
      ::pwrite(fd_, text.data(), std::min<std::size_t>(text.size(), failure_note_bytes), 0);
}

std::optional<Failure> read_failure_note(int fd) {
  if (fd < 0) return std::nullopt;
  std::array<char, failure_note_bytes> text{};
  const auto length = ::pread(fd, text.data(), text.size(), 0);
  if (length <= 0) return std::nullopt;
  return Failure::parse({text.data(), static_cast<std::size_t>(length)});
}

}  // namespace capstan::peers
