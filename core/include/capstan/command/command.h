#pragma once
#include <capstan/base/export.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace plugin {
class Host;
}
namespace command {

/// How a command was called.
struct Call {
  std::string name;                    ///< "report"
  std::string summary;                 ///< its line in `capstan --help`
  std::vector<std::string> arguments;  ///< what follows the name on the command line
  /// A variable of the environment; nothing where it is not set.
  std::function<std::optional<std::string>(const std::string&)> environment;
  plugin::Host& plugins;  ///< finds and loads others (capstan/plugin/host.h); it has loaded this command
};

/// What `capstan NAME …` does. The program makes one object and calls it once, on one thread.
class Command {
 public:
  virtual ~Command() = default;
  /// Returns the exit code (capstan/base/exit_code.h). Prints by capstan/base/terminal.h. An Error that it throws is
  /// printed with its fix, and the exit code is that of a wrong call.
  virtual int run(const Call& call) = 0;
};

}  // namespace command
CAPSTAN_END_NAMESPACE
