#pragma once
#include <capstan/base/export.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

CAPSTAN_BEGIN_NAMESPACE

/// A file that a run adds lines to for as long as it lives: each line stands there whole, or not at all. A disk that is
/// full for a while costs nothing: what cannot be written is held in memory, which is said at most once a minute, and
/// written as soon as it can be. One thread at a time.
class LineFile {
 public:
  struct Settings {
    /// Told what is wrong, in words; empty: log::warning.
    std::function<void(const std::string&)> warn = {};
    std::size_t most_held = std::size_t{64} << 20;  ///< bytes; lines beyond them are lost, and counted
    std::chrono::milliseconds between_warnings{60000};
    /// write(2), for tests.
    std::function<std::int64_t(int, const void*, std::size_t)> write = {};
  };

  LineFile() = default;
  /// Opens it to add lines, behind those that it has; throws FileError. What a crash left half is ended first.
  explicit LineFile(std::filesystem::path path) : LineFile(std::move(path), Settings{}) {}
  LineFile(std::filesystem::path path, Settings settings);
  /// Tries once more to write what is held.
  ~LineFile();
  LineFile(LineFile&& other) noexcept;
  LineFile& operator=(LineFile&& other) noexcept;

  bool is_open() const { return fd_ >= 0; }
  /// Adds a line (without its end). Never throws for what the file system says.
  void add(std::string_view line);
  /// Tries for so long to write what is held, and has it on disk. What is missing then, in words that name the file;
  /// empty: nothing.
  std::string finish(std::chrono::milliseconds patience);
  /// The same at once, and closes.
  std::string close();
  /// Bytes of lines that wait to be written.
  std::size_t held() const { return held_.size(); }

 private:
  bool write_held();
  void failed(int reason);
  void warn(const std::string& text);
  std::string missing() const;

  std::filesystem::path path_;
  Settings settings_;
  int fd_ = -1;
  std::string held_;
  std::int64_t lost_ = 0;  ///< lines for which there was no memory either
  int reason_ = 0;         ///< of the last failure
  std::chrono::steady_clock::time_point warned_{};
  bool has_warned_ = false;
  bool failing_ = false;
};

CAPSTAN_END_NAMESPACE
