#include "launch/error_report.h"

#include <capstan/base/exit_code.h>
#include <capstan/base/paths.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <c10/util/Exception.h>

#include <filesystem>
#include <new>
#include <system_error>

#include "launch/terminal.h"

namespace capstan::launch {

std::string error_text(const Error& error) {
  const auto faults = error.diagnostics().size();
  return cat("capstan: error", faults > 1 ? cat(" (", faults, " faults)") : "", "\n", error.what(), "\n");
}

std::optional<Error> in_words(const std::exception& exception) {
  constexpr const char* smaller =
      "give the job more memory (#SBATCH --mem, ulimit -v), more ranks to share the model, or a smaller model or "
      "batch; "
      "`capstan check` says what a configuration needs";
  if (dynamic_cast<const Error*>(&exception) != nullptr) return {};
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&exception))
    return FileError(file->path1(), "use", file->code().value());
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) return Error("this host has no memory left", smaller);
  if (const auto* full = dynamic_cast<const c10::OutOfMemoryError*>(&exception)) {
    const std::string text = full->what_without_backtrace();
    return Error(cat("this rank's GPU has no memory left: ", text.substr(0, text.find("If reserved but unallocated"))),
                 "`capstan check --gpu` says what would make it smaller; [monitor.memory_snapshot] what holds it");
  }
  if (const auto* torch = dynamic_cast<const c10::Error*>(&exception)) {
    const std::string text = torch->what_without_backtrace();
    const auto at = text.find("you tried to allocate");
    if (text.find("DefaultCPUAllocator") != std::string::npos && at != std::string::npos)
      return Error(cat("this host has no memory left: ", text.substr(at, text.find(". ", at) - at)), smaller);
  }
  return {};
}

int report_exception(const std::exception& exception) {
  if (const auto known = in_words(exception)) return report_exception(*known);
  if (const auto* error = dynamic_cast<const Error*>(&exception)) {
    print_error(error_text(*error));
    return static_cast<int>(ExitCode::failure);
  }
  print_error(
      cat("capstan: this is a bug, please report it with the run's logs: ", printable_lines(exception.what()), "\n"));
  return static_cast<int>(ExitCode::bug);
}

}  // namespace capstan::launch
