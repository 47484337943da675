#include "launch/lost_file.h"

#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/paths.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>
#include <utility>

#include "base/mapped_files.h"
#include "launch/error_report.h"

namespace capstan::launch {
namespace {

// A file in which the mapping's page is missing says why when it is read.
Error error_of(const MappedByte& lost) {
  const int fd = ::open(lost.file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError(lost.file, "read", errno);
  char byte = 0;
  const auto got = ::pread(fd, &byte, 1, static_cast<off_t>(lost.offset));
  const int reason = errno;
  ::close(fd);
  if (got < 0) return FileError(lost.file, "read", reason);
  if (got == 0) {
    return Error("it has become shorter while it was read: " + cat("byte ", lost.offset, " is gone"),
                 "start again when no process writes to it; a damaged file must be copied again", lost.file.string());
  }
  return FileError(lost.file, "read", EIO);  // a moment ago
}

std::function<void(const std::string&)>& teller() {
  static auto* const tell = new std::function<void(const std::string&)>;  // used until the process ends
  return *tell;
}

// The fault comes from reading a mapped page, never from inside the C library's own state: here the handler may do what
// any code may, except return or throw.
extern "C" void on_bus_error(int signal, siginfo_t* info, void*) {
  static std::atomic_flag reported;
  const bool was_sent = info->si_code <= 0;  // by a process
  const auto lost = was_sent ? std::nullopt : mapped_byte_at(info->si_addr);
  if (!lost) {
    std::signal(signal, SIG_DFL);  // the read fails again, and ends the process
    if (was_sent) std::raise(signal);
    return;
  }
  if (reported.test_and_set()) {  // several threads read the file
    std::this_thread::sleep_for(std::chrono::minutes(1));
    ::_exit(static_cast<int>(ExitCode::failure));
  }
  const auto error = error_of(*lost);
  terminal::print_error(error_text(error));
  std::fflush(stderr);
  if (teller()) {
    constexpr std::chrono::seconds to_arrive{2};  // ten looks of each rank at the store
    teller()(error.what());
    std::this_thread::sleep_for(to_arrive);
  }
  ::_exit(static_cast<int>(ExitCode::failure));
}

}  // namespace

void report_lost_files() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

void tell_of_lost_files(std::function<void(const std::string& error)> tell) { teller() = std::move(tell); }

}  // namespace capstan::launch
