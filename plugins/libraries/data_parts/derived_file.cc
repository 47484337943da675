#include <capstan/data_parts/derived_file.h>

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/log.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iomanip>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace capstan::data {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// As 16 hexadecimal digits.
std::string xxh64_text(const void* data, std::size_t size) {
  std::ostringstream text;
  text << std::hex << std::setw(16) << std::setfill('0') << XXH64(data, size, 0);
  return text.str();
}

/// What the lock file says of attempts that failed: those who waited meanwhile get the last one's faults.
struct Failures {
  std::int64_t count = 0;
  std::vector<Diagnostic> last = {};
};

// A lock file is empty where no attempt has failed, and half of a text while one is written down.
Failures failures_of(const fs::path& file) {
  Failures failures;
  try {
    const auto json = Json::parse(read_file(file));
    for (const auto& fault : json.at("faults"))
      failures.last.push_back({fault.at("where").text(), fault.at("what").text(), fault.at("fix").text()});
    failures.count = json.at("failures").get<std::int64_t>();
  } catch (const JsonError&) {
    return {};
  }
  return failures;
}

std::string text_of(const Failures& failures) {
  auto faults = Json::array();
  for (const auto& fault : failures.last)
    faults.push_back(Json{{"where", fault.where}, {"what", fault.what}, {"fix", fault.fix}});
  return Json{{"failures", failures.count}, {"faults", std::move(faults)}}.dump();
}

[[noreturn]] void refuse_folder(const DerivedFile& file, int reason) {
  const bool is_full = reason == ENOSPC || reason == EDQUOT;
  throw Error(cat("cannot write it: ", meaning_of(reason)), cat(is_full ? "free some space, or " : "", file.advice),
              file.path().string());
}

/// The file's lock, from its making to the object's end.
class Lock {
 public:
  explicit Lock(const DerivedFile& file) : path_(file.path().string() + ".lock") {
    std::error_code ignored;
    fs::create_directories(file.folder, ignored);  // what is wrong shows when the file is opened
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd_ < 0) refuse_folder(file, errno);
  }
  ~Lock() { ::close(fd_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  const fs::path& path() const { return path_; }
  /// Takes the lock if no other has it. A file system without locks counts as one whose lock was got: then each process
  /// makes the file.
  bool take() const { return ::flock(fd_, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR); }
  /// Replaces what the lock file says. Only who has the lock does so; what cannot be written is lost.
  void write(const std::string& text) const {
    if (::ftruncate(fd_, 0) != 0) return;
    [[maybe_unused]] const auto written = ::pwrite(fd_, text.data(), text.size(), 0);
  }

 private:
  fs::path path_;
  int fd_ = -1;
};

// Waits for the lock, or for the file.
void wait(const Lock& lock, const fs::path& path) {
  constexpr std::chrono::milliseconds between{20};
  constexpr std::chrono::seconds quiet{5};
  const auto began = Clock::now();
  bool is_told = false;
  while (!lock.take() && !is_file(path)) {
    std::this_thread::sleep_for(between);
    if (is_told || Clock::now() - began < quiet) continue;
    log::info(cat("waiting for ", path.string(), ", which another process of this node makes"));
    is_told = true;
  }
}

/// A name for the file until it is whole, which goes with the object.
class Unfinished {
 public:
  // Nodes without common locks do not write into each other's.
  explicit Unfinished(const DerivedFile& file)
      : file_(file), path_(cat(file.path().string(), ".", ::getpid(), "-", Clock::now().time_since_epoch().count())) {}
  ~Unfinished() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  const fs::path& path() const { return path_; }
  /// Renames it when all of it is on the disk: a machine that stops afterwards has the whole file.
  void finish() const {
    const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) throw FileError(path_, "find", errno);
    const int failed = ::fsync(fd) == 0 ? 0 : errno;
    ::close(fd);
    if (failed != 0 || ::rename(path_.c_str(), file_.path().c_str()) != 0)
      refuse_folder(file_, failed != 0 ? failed : errno);
  }

 private:
  const DerivedFile& file_;
  fs::path path_;
};

// What processes that were killed have left. One that lives writes now and then.
void remove_leftovers(const DerivedFile& file) {
  constexpr std::chrono::hours old{24};
  const auto prefix = file.path().filename().string() + ".";
  for (const auto& entry : entries_of(file.folder)) {
    const auto name = entry.filename().string();
    std::error_code fault;
    if (!name.starts_with(prefix) || name.ends_with(".lock")) continue;
    const auto age = fs::file_time_type::clock::now() - fs::last_write_time(entry, fault);
    if (!fault && age > old) fs::remove(entry, fault);
  }
}

void make_whole(const DerivedFile& file, const MakeFile& make) {
  const auto path = file.path();
  remove_leftovers(file);
  const Unfinished unfinished(file);
  make(unfinished.path());
  unfinished.finish();
}

}  // namespace

fs::path DerivedFile::path() const {
  const fs::path named(name);
  return folder / cat(named.stem().string(), "-", xxh64_text(key.data(), key.size()), named.extension().string());
}

fs::path derive(const DerivedFile& file, const MakeFile& make) {
  CAPSTAN_ASSERT(!file.folder.empty() && !file.name.empty() && !file.key.empty());
  auto path = file.path();
  if (is_file(path)) return path;
  const Lock lock(file);
  const auto before = failures_of(lock.path());
  wait(lock, path);
  if (is_file(path)) return path;
  auto failures = failures_of(lock.path());
  if (failures.count > before.count) throw Error(std::move(failures.last));
  try {
    make_whole(file, make);
  } catch (const Error& error) {
    lock.write(text_of({failures.count + 1, error.diagnostics()}));
    throw;
  }
  return path;
}

std::string content_key(const fs::path& file) {
  const MappedFile mapped(file);
  return cat(mapped.size(), " bytes, XXH64 ", xxh64_text(mapped.data(), mapped.size()), "\n");
}

fs::path derived_folder(const Environment& environment) {
  const auto value = [&](const char* name) { return fs::path(environment(name).value_or("")); };
  const auto shared = value("CAPSTAN_CACHE"), xdg = value("XDG_CACHE_HOME"), home = value("HOME");
  if (!shared.empty()) return shared / "derived";
  if (!xdg.empty()) return xdg / "capstan";
  return home.empty() ? fs::path() : home / ".cache" / "capstan";
}

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): no thread here changes one
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

}  // namespace capstan::data
