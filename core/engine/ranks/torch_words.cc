#include "ranks/torch_words.h"

#include <capstan/base/text.h>

#include <c10/util/Exception.h>

#include <string>

#include "launch/error_report.h"

namespace capstan::ranks {

std::optional<Error> in_words(const std::exception& exception) {
  if (const auto* full = dynamic_cast<const c10::OutOfMemoryError*>(&exception)) {
    const std::string text = full->what_without_backtrace();
    return Error(cat("this rank's GPU has no memory left: ", text.substr(0, text.find("If reserved but unallocated"))),
                 "`capstan check --gpu` says what would make it smaller; [monitor.memory_snapshot] what holds it");
  }
  if (const auto* torch = dynamic_cast<const c10::Error*>(&exception)) {
    const std::string text = torch->what_without_backtrace();
    const auto at = text.find("you tried to allocate");
    if (text.find("DefaultCPUAllocator") != std::string::npos && at != std::string::npos)
      return launch::no_host_memory(text.substr(at, text.find(". ", at) - at));
  }
  return launch::in_words(exception);
}

}  // namespace capstan::ranks
