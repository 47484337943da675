#pragma once
#include <capstan/base/export.h>

#include <chrono>
#include <string>
#include <string_view>

CAPSTAN_BEGIN_NAMESPACE

/// What a monitor, or a rank, shows on standard output, which is often a file: what a full disk has no room for is held
/// and follows when it has, in its order. That it cannot be written is said in the log, at most once a minute. Not
/// buffered otherwise. One thread at a time.
class Output {
 public:
  Output() = default;
  explicit Output(int descriptor) : fd_(descriptor) {}
  /// Tries once more, and says in the log what is missing then.
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
  std::size_t lost_ = 0;  ///< bytes for which there was no memory either
  int reason_ = 0;
  std::chrono::steady_clock::time_point warned_{};
};

CAPSTAN_END_NAMESPACE
