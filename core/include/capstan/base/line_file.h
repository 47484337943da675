#pragma once
#include <capstan/base/export.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

CAPSTAN_BEGIN_NAMESPACE

/// A file that a run appends lines to as long as it runs: each line is in it complete, or not at all. If the disk is
/// full for a while, nothing is lost: lines are held in memory, with a warning at most once a minute, and written as
/// soon as there is room. One thread at a time.
class LineFile {
 public:
  struct Settings {
    /// Called with a message when writing fails; empty: log::warning.
    std::function<void(const std::string&)> warn = {};
    std::size_t most_held = std::size_t{64} << 20;  ///< bytes held at most; further lines are lost, and counted
    std::chrono::milliseconds between_warnings{60000};
    /// write(2), for tests.
    std::function<std::int64_t(int, const void*, std::size_t)> write = {};
  };

  LineFile() = default;
  explicit LineFile(std::filesystem::path path) : LineFile(std::move(path), Settings{}) {}
  LineFile(std::filesystem::path path, Settings settings);
  /// Tries once more to write what is held.
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  /// Opens it to append lines, if none is open; throws FileError, and Error for a link. A last line that a crash left
  /// incomplete gets its line end first.
  void open(std::filesystem::path path);
  bool is_open() const { return fd_ >= 0; }
  /// Adds a line (without its end). Never throws for what the file system says.
  void add(std::string_view line);
  /// Tries for so long to write what is held, and syncs it to disk. Returns a message, with the file's name, about what
  /// is missing then; empty: nothing is.
  std::string finish(std::chrono::milliseconds patience);
  /// The same without waiting, then closes the file.
  std::string close();
  /// Bytes of lines that wait to be written.
  std::size_t held() const { return held_.size(); }

 private:
  bool write_held();
  void keep_unwritten(std::size_t done, std::int64_t before);
  void failed(int reason);
  void warn(const std::string& text);
  std::string missing() const;

  std::filesystem::path path_;
  Settings settings_;
  int fd_ = -1;
  std::string held_;
  std::int64_t lost_ = 0;  ///< lines that exceeded the memory limit
  int reason_ = 0;         ///< errno when it failed last
  std::chrono::steady_clock::time_point warned_{};
  bool has_warned_ = false;
  bool failing_ = false;
};

CAPSTAN_END_NAMESPACE
