#include <capstan/base/counted.h>
#include <capstan/base/line_file.h>

#include <capstan/base/log.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "base/disk_wait.h"

namespace capstan {
namespace {

using Clock = std::chrono::steady_clock;

off_t size_of(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 ? info.st_size : -1;
}

// Is the file's last line incomplete? Only for regular files: a pipe or a device has no end.
bool ends_within_line(int fd) {
  const auto size = size_of(fd);
  char last = '\n';
  return size > 0 && ::pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

// Opens it to append. A link is refused: who appends through it changes a file that the path does not name.
int open_to_append(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd >= 0) return fd;
  const int reason = errno;
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
    throw Error("it is a link, and lines are not written through links",
                "remove the link, or move the file that it leads to into its place", path.string());
  }
  throw FileError(path, "write", reason);
}

std::int64_t lines_in(std::string_view text) { return std::count(text.begin(), text.end(), '\n'); }

}  // namespace

LineFile::LineFile(std::filesystem::path path, Settings settings) : settings_(std::move(settings)) {
  open(std::move(path));
}

void LineFile::open(std::filesystem::path path) {
  CAPSTAN_ASSERT(!is_open());
  fd_ = open_to_append(path);
  path_ = std::move(path);
  held_ = ends_within_line(fd_) ? "\n" : "";
  has_warned_ = failing_ = false;
}

LineFile::~LineFile() {
  const auto missing = close();
  if (!missing.empty()) warn(missing);
}

void LineFile::add(std::string_view line) {
  if (fd_ < 0) return;
  if (held_.size() + line.size() < settings_.most_held) {
    held_.append(line) += '\n';
  } else {
    ++lost_;
  }
  write_held();
}

// Writes all or nothing, as far as the file shows.
bool LineFile::write_held() {
  const DiskWait at_disk("writing", path_);
  const auto before = held_.empty() ? 0 : size_of(fd_);
  std::size_t done = 0;
  while (done < held_.size()) {
    const auto* next = held_.data() + done;
    const auto size = held_.size() - done;
    const auto written = settings_.write ? settings_.write(fd_, next, size) : ::write(fd_, next, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int reason = written < 0 ? errno : ENOSPC;
      keep_unwritten(done, before);
      failed(reason);
      return false;
    }
    done += static_cast<std::size_t>(written);
  }
  held_.clear();
  if (std::exchange(failing_, false)) {
    has_warned_ = false;  // another failure is news again
    warn(cat(
        path_.string(), ": it can be written again; ",
        lost_ == 0 ? "nothing of it is missing" : cat(counted(lost_, "line of it is", "lines of it are"), " lost")));
  }
  return true;
}

// Truncates the incomplete line that a failed write has left in the file. If even that fails, the rest of the line is
// written later.
void LineFile::keep_unwritten(std::size_t done, std::int64_t before) {
  const auto last = done == 0 ? std::string::npos : held_.rfind('\n', done - 1);
  const auto lines = last == std::string::npos ? 0 : last + 1;  // written completely
  const bool cut = done > lines && before >= 0 && ::ftruncate(fd_, before + static_cast<off_t>(lines)) == 0;
  held_.erase(0, cut ? lines : done);
}

void LineFile::failed(int reason) {
  reason_ = reason;
  failing_ = true;
  const auto now = Clock::now();
  if (has_warned_ && now - warned_ < settings_.between_warnings) return;
  warned_ = now;
  has_warned_ = true;
  warn(cat(path_.string(), ": cannot write it: ", meaning_of(reason), "; ",
           lost_ == 0 ? "what is to be written is held in memory and follows when it can be"
                      : cat("no more can be held in memory, and ", counted(lost_, "line is", "lines are"), " lost"),
           "\n    fix: ", fix_for(reason)));
}

void LineFile::warn(const std::string& text) {
  if (settings_.warn) {
    settings_.warn(text);
  } else {
    log::warning(text);
  }
}

std::string LineFile::missing() const {
  struct stat info {};
  if (::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 0)
    return cat(path_.string(), ": it was deleted while it was written");
  const auto lines = lines_in(held_) + lost_;
  if (lines == 0) return {};
  return cat(path_.string(), ": ", counted(lines, "line"), " of it could not be written: ", meaning_of(reason_));
}

std::string LineFile::finish(std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds between{100};
  if (fd_ < 0) return {};
  const DiskWait at_disk("writing", path_);
  const auto until = Clock::now() + patience;
  while (!write_held() && Clock::now() < until) std::this_thread::sleep_for(between);
  auto text = missing();
  // Some file systems say only here that there was no room. A pipe or a device has nothing to sync.
  if (text.empty() && ::fsync(fd_) != 0 && errno != EINVAL && errno != ENOTSUP && errno != EROFS)
    text = cat(path_.string(), ": its last lines may be missing: cannot sync it: ", meaning_of(errno));
  return text;
}

std::string LineFile::close() {
  if (fd_ < 0) return {};
  write_held();
  auto text = missing();
  held_.clear();
  lost_ = 0;
  if (::close(std::exchange(fd_, -1)) != 0 && text.empty())
    text = cat(path_.string(), ": its last lines may be missing: cannot close it: ", meaning_of(errno));
  return text;
}

}  // namespace capstan
