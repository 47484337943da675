#pragma once
#include <capstan/base/export.h>

#include <chrono>
#include <string>
#include <string_view>

CAPSTAN_BEGIN_NAMESPACE

/// Standard output of a monitor or a rank, which is often a file: while the disk is full, output is held in memory and
/// written later in order. The log has a warning about it at most once a minute. Not buffered otherwise. One thread at
/// a time.
class Output {
 public:
  Output() = default;
  explicit Output(int descriptor) : fd_(descriptor) {}
  /// Tries once more, and logs what is missing then.
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  void write(std::string_view text);

 private:
  bool write_held();
  void failed(int reason);
  const char* name() const;

  int fd_ = 1;
  std::string held_;
  std::size_t lost_ = 0;  ///< bytes that exceeded the memory limit
  int reason_ = 0;
  std::chrono::steady_clock::time_point warned_{};
};

CAPSTAN_END_NAMESPACE
