#pragma once
#include <capstan/base/export.h>

#include <cstddef>
#include <optional>
#include <string>

#include "peers/failure.h"

CAPSTAN_BEGIN_NAMESPACE
namespace peers {

/// A file in which a process that starts ranks, but does not run their store, says that one of them died: the other
/// local ranks read it, and tell ranks on other nodes through the store.
class FailureNote {
 public:
  FailureNote();
  ~FailureNote();
  FailureNote(const FailureNote&) = delete;
  FailureNote& operator=(const FailureNote&) = delete;
  /// A file descriptor that processes inherit.
  int fd() const { return fd_; }
  void write(int rank, const std::string& host, const std::string& message) const;

 private:
  int fd_;
};

inline constexpr std::size_t failure_note_bytes = 2048;
/// The content of a FailureNote, by its file descriptor (-1: there is none); nothing while all ranks are alive.
std::optional<Failure> read_failure_note(int fd);

}  // namespace peers
CAPSTAN_END_NAMESPACE
