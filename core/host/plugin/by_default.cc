#include "plugin/by_default.h"

#include <capstan/base/error.h>
#include <capstan/base/paths.h>
#include <capstan/plugin/host.h>

#include "plugin/abi.h"

namespace capstan::plugin {

std::vector<std::string> opened_by_default(const std::string& kind) {
  std::vector<std::string> names;
  for (const auto& file : entries_if_there(Host::builtin_folder() / kind)) {
    if (file.extension() != ".so") continue;
    try {
      if (!read_note(file, Note::by_default).empty()) names.push_back(file.stem().string());
    } catch (const Error&) {  // no run needs it, and `capstan plugins` says what is wrong with it
    }
  }
  return names;
}

}  // namespace capstan::plugin
