#include "launch/error_report.h"

#include <capstan/base/exit_code.h>
#include <capstan/base/paths.h>
#include <capstan/base/printable.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <new>
#include <set>
#include <system_error>
#include <utility>

#include "base/limit_text.h"

namespace capstan::launch {

std::string error_text(const Error& error) {
  std::set<std::pair<std::string, std::string>> kinds;  // the same fault at several places is one
  for (const auto& fault : error.diagnostics()) kinds.emplace(fault.what, fault.fix);
  const auto faults = kinds.size();
  return cat("capstan: error", faults > 1 ? cat(" (", faults, " faults)") : "", "\n", error.what(), "\n");
}

namespace {

// What the system refuses is no bug of ours: a thread, a socket. Nothing where the number is no errno.
std::optional<Error> of_system(const std::system_error& refused) {
  const auto& code = refused.code();
  constexpr std::array bugs{EINVAL, EDEADLK, ESRCH, EBADF, EPERM};  // from a mutex, or a thread that was joined
  if (std::find(bugs.begin(), bugs.end(), code.value()) != bugs.end()) return {};
  if (code.category() != std::generic_category() && code.category() != std::system_category()) return {};
  const std::string what = refused.what();
  const auto plain = code.message();
  // A thread that cannot be started says no more than the errno's text.
  const bool is_thread = code.value() == EAGAIN && what == plain;
  return Error(is_thread ? cat("no more threads can be started: ", meaning_of(code.value()))
                         : cat(what.substr(0, what.rfind(": " + plain)), ": ", meaning_of(code.value())),
               fix_for(code.value()));
}

}  // namespace

Error no_host_memory(const std::string& detail) {
  return Error(cat("this host has no memory left", detail.empty() ? "" : ": ", detail),
               cat(limit_text(RLIMIT_AS),
                   "give the job more memory (#SBATCH --mem, ulimit -v), more ranks to share the model, or a smaller "
                   "model or batch; `capstan check` says what a configuration needs"));
}

std::optional<Error> in_words(const std::exception& exception) {
  if (dynamic_cast<const Error*>(&exception) != nullptr) return {};
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&exception))
    return FileError(file->path1(), "use", file->code().value());
  if (const auto* refused = dynamic_cast<const std::system_error*>(&exception)) return of_system(*refused);
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) return no_host_memory("");
  return {};
}

int report_exception(const std::exception& exception) {
  if (const auto known = in_words(exception)) return report_exception(*known);
  if (const auto* error = dynamic_cast<const Error*>(&exception)) {
    terminal::print_error(error_text(*error));
    return static_cast<int>(ExitCode::failure);
  }
  terminal::print_error(
      cat("capstan: this is a bug, please report it with the run's logs: ", printable_lines(exception.what()), "\n"));
  return static_cast<int>(ExitCode::bug);
}

}  // namespace capstan::launch
