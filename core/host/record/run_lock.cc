#include "record/run_lock.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/log.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <sstream>

namespace capstan::record {
namespace {

namespace fs = std::filesystem;

std::int64_t now_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// When a process was started, in ticks of the machine; empty: there is none of this number any more. Throws FileError
// where that cannot be known: it may well live.
std::string start_of(const std::string& pid) {
  try {
    const auto stat = read_file(fs::path("/proc") / pid / "stat");
    std::istringstream fields(stat.substr(stat.rfind(')') + 1));  // the name before may hold anything
    std::string field;
    fields >> field;
    if (field == "Z" || field == "X") return {};  // dead, and only its parent does not know
    constexpr int between = 19;                   // the state is field 3, the start field 22
    for (int i = 0; i < between; ++i) fields >> field;
    return field;
  } catch (const FileError& error) {
    if (error.absent() || error.error_number() == ESRCH) return {};
    throw;
  }
}

std::string this_machine() {
  std::error_code unknown;
  const fs::path boot = "/proc/sys/kernel/random/boot_id";
  const auto processes = fs::read_symlink("/proc/self/ns/pid", unknown).string();
  if (unknown || !is_there(boot)) return {};
  return trim(read_file(boot)) + " " + processes;
}

std::string text_of(const LockHolder& holder) {
  const Json json{{"host", holder.host},       {"pid", holder.pid}, {"machine", holder.machine},
                  {"started", holder.started}, {"job", holder.job}, {"since", holder.since}};
  return json.dump(2) + "\n";
}

// Nothing of a file that was cut off: then only its beats count.
LockHolder holder_in(const std::string& text) {
  LockHolder holder;
  const auto json = try_parse_json(text);
  if (!json.is_object()) return holder;
  const auto word = [&](const char* key) {
    return json.contains(key) && json.at(key).is_string() ? json.at(key).get<std::string>() : std::string();
  };
  const auto number = [&](const char* key) {
    return json.contains(key) && json.at(key).is_number_integer() ? json.at(key).get<std::int64_t>() : 0;
  };
  holder.host = word("host");
  holder.pid = number("pid");
  holder.machine = word("machine");
  holder.started = word("started");
  holder.job = word("job");
  holder.since = number("since");
  return holder;
}

bool is_here(const LockHolder& holder, const LockHolder& me) {
  return !me.machine.empty() && holder.machine == me.machine && holder.pid > 0;
}

std::string number_of(const std::string& job) { return job.substr(0, job.rfind('.')); }

// Before SLURM starts a job again, it has ended all of it.
bool is_earlier_start(const LockHolder& holder, const LockHolder& me) {
  return !me.job.empty() && holder.job != me.job && number_of(holder.job) == number_of(me.job);
}

std::string name_of(const LockHolder& holder) {
  if (holder.pid == 0) return "another process";
  return cat("process ", holder.pid, " on ", holder.host,
             holder.job.empty() ? "" : cat(" (job ", number_of(holder.job), ")"));
}

[[noreturn]] void refuse(const fs::path& file, const LockHolder& holder) {
  const auto age = now_s() - holder.since;  // below zero where the clock was set back meanwhile
  const auto ago = holder.since > 0 && age >= 0 ? cat(", for ", duration_text(static_cast<double>(age))) : "";
  throw Error(cat("another run is writing to this folder: ", name_of(holder), ago),
              "wait for its end, or stop it; with another run.name this run gets a folder of its own",
              file.parent_path().string());
}

}  // namespace

LockHolder RunLock::this_process(const std::string& host, const std::string& job) {
  const auto pid = static_cast<std::int64_t>(::getpid());
  return {host, pid, this_machine(), start_of(std::to_string(pid)), job, now_s()};
}

RunLock::RunLock(const fs::path& folder, LockHolder me, Patience patience)
    : file_(folder / "running"), me_(std::move(me)), text_(text_of(me_)), patience_(patience) {}

RunLock::~RunLock() {
  if (!beats_.joinable()) return;
  beats_.request_stop();
  beats_.join();
  try {
    const auto now = look();
    if (now && now->text == text_) ::unlink(file_.c_str());
  } catch (const Error& error) {
    log::debug(cat("the lock of the run's folder stays: ", error.what()));
  }
}

// Opens the file, since what stat says of one on another host may be a minute old.
std::optional<RunLock::Look> RunLock::look() const {
  const int fd = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC);
  const int reason = errno;
  if (fd < 0 && reason == ENOENT) return {};
  if (fd < 0 && reason == EACCES)
    throw Error("cannot read it: another user's run has left it", "take another run.name", file_.string());
  if (fd < 0) throw FileError(file_, "read", reason);
  Look now;
  struct stat info {};
  if (::fstat(fd, &info) == 0)
    now.touched = std::chrono::seconds(info.st_mtim.tv_sec) + std::chrono::nanoseconds(info.st_mtim.tv_nsec);
  std::array<char, 4096> part{};
  ssize_t got = 0;
  while ((got = ::read(fd, part.data(), part.size())) > 0) now.text.append(part.data(), static_cast<std::size_t>(got));
  const int failure = errno;
  ::close(fd);
  if (got < 0) throw FileError(file_, "read", failure);
  return now;
}

// A link without a target can neither be read nor made: waiting for its holder would never end.
void RunLock::refuse_dangling() const {
  std::error_code unknown;
  if (!fs::is_symlink(fs::symlink_status(file_, unknown)) || is_there(file_)) return;
  throw Error("it is a link that leads nowhere", "remove it: no run holds this folder", file_.string());
}

bool RunLock::create() {
  const int fd = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  const bool there = fd < 0 && errno == EEXIST;
  if (there) {
    refuse_dangling();
    return false;  // somebody was faster
  }
  if (fd < 0) throw FileError(file_, "write", errno);
  const auto written = ::write(fd, text_.data(), text_.size());
  const int reason = errno;
  ::close(fd);
  if (written == static_cast<ssize_t>(text_.size())) return true;
  ::unlink(file_.c_str());
  throw FileError(file_, "write", written < 0 ? reason : ENOSPC);
}

// Two that take over at once: the file is the last one's, and the first sees so.
bool RunLock::take_over() {
  constexpr std::chrono::milliseconds for_others{200};
  write_file(file_, text_);
  std::this_thread::sleep_for(for_others);
  const auto now = look();
  return now && now->text == text_;
}

// Whether its holder, about which nothing else is known, has not touched it for too long.
bool RunLock::is_silent(const Look& now) {
  if (!seen_ || seen_->text != now.text) {
    seen_ = now;
    seen_at_ = Clock::now();
    const auto probe = file_.parent_path() / cat("running.", me_.host, ".", me_.pid);
    write_file(probe, "");
    struct stat info {};
    const bool known = ::stat(probe.c_str(), &info) == 0;
    ::unlink(probe.c_str());
    // Unless that clock has just jumped: then a holder that lives touches the file at its next beat.
    const bool old = known && std::chrono::seconds(info.st_mtim.tv_sec) - now.touched > patience_.long_gone;
    waits_ = old ? std::min(patience_.silence, 2 * patience_.beat) : patience_.silence;
    log::warning(cat(file_.parent_path().string(), " was being written by ", name_of(holder_in(now.text)),
                     ", which may be gone: waiting up to ", (waits_.count() + 999) / 1000,
                     " s for a sign of life from it"));
  }
  if (*seen_ != now) refuse(file_, holder_in(now.text));
  return Clock::now() - seen_at_ > waits_;
}

bool RunLock::take() {
  CAPSTAN_ASSERT(!beats_.joinable());
  const auto now = look();
  bool taken = false;
  if (!now) {
    taken = create();
  } else {
    const auto holder = holder_in(now->text);
    const bool here = is_here(holder, me_);
    const bool gone = here ? start_of(std::to_string(holder.pid)) != holder.started : is_earlier_start(holder, me_);
    if (here && !gone) refuse(file_, holder);
    if (!gone && !is_silent(*now)) return false;
    taken = take_over();
  }
  if (taken) beats_ = std::jthread([this](const std::stop_token& ended) { keep_beating(ended); });
  return taken;
}

void RunLock::keep_beating(const std::stop_token& ended) {
  std::mutex mutex;
  std::unique_lock guard(mutex);
  std::condition_variable_any next;
  while (!next.wait_for(guard, ended, patience_.beat, [&] { return ended.stop_requested(); })) {
    std::optional<Look> now;
    try {
      now = look();
    } catch (const Error& error) {
      log::debug(cat("no beat: ", error.what()));  // the next one may come through
    }
    if (now && now->text == text_) {
      ::utimensat(AT_FDCWD, file_.c_str(), nullptr, 0);
    } else if (now) {
      log::warning(cat(file_.parent_path().string(), " is being written by ", name_of(holder_in(now->text)),
                       " too, which took this run for dead"));
      return;
    }
  }
}

HolderSeen holder_seen(const fs::path& folder) {
  const auto file = folder / "running";
  std::error_code absent;
  const auto touched = fs::last_write_time(file, absent);
  if (absent) return {};
  LockHolder holder;
  try {
    holder = holder_in(read_file(file));
  } catch (const FileError& error) {
    if (error.absent()) return {};  // it has just been given back
    throw;
  }
  LockHolder me;
  me.machine = this_machine();
  const bool lives = is_here(holder, me) ? start_of(std::to_string(holder.pid)) == holder.started
                                         : fs::file_time_type::clock::now() - touched <= RunLock::Patience().silence;
  return {lives ? HolderSeen::State::lives : HolderSeen::State::gone, name_of(holder)};
}

}  // namespace capstan::record
