#include "launch/error_report.h"

#include <capstan/base/exit_code.h>
#include <capstan/base/text.h>

#include <cstdio>

namespace capstan::launch {

std::string error_text(const Error& error) {
  const auto faults = error.diagnostics().size();
  return cat("capstan: error", faults > 1 ? cat(" (", faults, " faults)") : "", "\n", error.what(), "\n");
}

int report_exception(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) {
    std::fputs(error_text(*error).c_str(), stderr);
    return static_cast<int>(ExitCode::failure);
  }
  std::fprintf(stderr, "capstan: this is a bug, please report it with the run's logs: %s\n", exception.what());
  return static_cast<int>(ExitCode::bug);
}

}  // namespace capstan::launch
