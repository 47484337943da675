#include "launch/limits.h"

#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/text.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace capstan::launch {
namespace {

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t unlimited = ~std::uint64_t{0};

// What a rank maps besides the libraries, measured: LibTorch's initialisers 45 MiB, a small run of a single rank 190
// MiB, one of several ranks 560 MiB (its eight threads each have 8 MiB of stack and a malloc arena of 64 MiB). The
// model comes on top of it; where that does not fit, an allocation fails and says so.
constexpr std::uint64_t start_room = 640 * kib;
// Measured: LibTorch's initialisers need 32 KiB, `check` 48 and a small run 80, and threads get as much. Ten times that
// for nested files and expressions.
constexpr std::uint64_t start_stack = 800;

std::uint64_t limit_kib(decltype(RLIMIT_AS) which) {
  rlimit limit{};
  if (::getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return unlimited;
  return limit.rlim_cur / kib;
}

// The first number of /proc/self/statm is this process's size in pages.
std::uint64_t mapped_kib() {
  const int fd = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  std::array<char, 64> text{};
  const auto got = ::read(fd, text.data(), text.size() - 1);
  ::close(fd);
  if (got <= 0) return 0;
  return std::strtoull(text.data(), nullptr, 10) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) / kib;
}

}  // namespace

bool start_limit_fault(std::uint64_t mapped, std::uint64_t memory, std::uint64_t stack, char* out, unsigned size) {
  const auto say = [&](const char* limit, const char* what, std::uint64_t value, std::uint64_t needed) {
    std::snprintf(out, size,
                  "capstan: error\nulimit %s limits %s to %llu KiB, but this program needs %llu KiB\n"
                  "    fix: ulimit %s %llu, or ulimit %s unlimited\n",
                  limit, what, static_cast<unsigned long long>(value), static_cast<unsigned long long>(needed), limit,
                  static_cast<unsigned long long>(needed), limit);
    return true;
  };
  if (memory < mapped + start_room) return say("-v", "this process's memory", memory, mapped + start_room);
  if (stack < start_stack) return say("-s", "the stack", stack, start_stack);
  out[0] = '\0';
  return false;
}

void check_start_limits() {
  std::array<char, 512> text{};
  if (!start_limit_fault(mapped_kib(), limit_kib(RLIMIT_AS), limit_kib(RLIMIT_STACK), text.data(), text.size())) return;
  (void)!::write(STDERR_FILENO, text.data(), std::strlen(text.data()));
  ::_exit(static_cast<int>(ExitCode::usage));
}

// Measured: 11 and four a rank, the connections of two groups on the host; the rest is for the files of checkpoints,
// plugins and monitors; a small run opens six.
std::int64_t files_of_rank(int ranks) { return 32 + 4 * static_cast<std::int64_t>(ranks); }
// Measured: 7 and eight a rank, its pipes and its connections to the ranks' store.
std::int64_t files_of_starter(int local_ranks) { return 16 + 8 * static_cast<std::int64_t>(local_ranks); }

void need_open_files(std::int64_t files, const std::string& who) {
  rlimit limit{};
  const auto needed = static_cast<rlim_t>(files);
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  const auto given = limit.rlim_cur;
  limit.rlim_cur = std::min(needed, limit.rlim_max);
  if (::setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= needed) return;
  throw Error(cat("ulimit -n limits this process to ", given, " open files, but ", who, " needs ", files),
              cat("raise it in the shell or job script that starts this: ulimit -n ", files, "; its hard limit is ",
                  limit.rlim_max, " (ulimit -Hn), which only root raises"));
}

}  // namespace capstan::launch
