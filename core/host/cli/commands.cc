#include "cli/commands.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/command/command.h>
#include "plugin/guard.h"

#include <algorithm>
#include <memory>

#include "plugin/engine.h"

namespace capstan::cli {

plugin::Host plugin_host(const launch::Environment& env, bool uses_gpu) {
  std::vector<std::filesystem::path> folders;
  for (const auto& folder : split(env("CAPSTAN_PLUGIN_PATH").value_or(""), ':')) {
    if (!folder.empty()) folders.emplace_back(folder);
  }
  return plugin::Host(folders, uses_gpu, env("CAPSTAN_TRUST_PLUGINS") == "1");
}

void list_commands(command::Arguments& program, const std::vector<plugin::Noted>& commands) {
  const auto own = program.actions();
  std::string problems;
  for (const auto& one : commands) {
    if (std::find(own.begin(), own.end(), one.name) != own.end()) continue;
    if (one.problem.empty()) {
      program.action(one.name, one.line);
    } else {
      problems += cat("\n", one.name, " cannot be used: ", one.problem);
    }
  }
  if (!problems.empty()) program.add_footer("\n" + problems);
}

int call_command(plugin::Host& host, const std::string& name, const std::vector<std::string>& arguments,
                 const launch::Environment& env) {
  const auto& about = host.load("command", name);
  Diagnostics faults;
  const auto made = std::static_pointer_cast<command::Command>(about.make({}, faults));
  faults.throw_if_any();
  try {
    const command::Call call{name, about.summary, arguments, env, host};
    return plugin::engine_is_there() ? plugin::open_engine().call(*made, call) : made->run(call);
  } catch (const Error&) {
    throw;  // its words are meant for the caller
  } catch (...) {
    plugin::rethrow_with_context(cat("plugin '", name, "' (command) ran"));
  }
}

std::string fix_of_unknown(const std::string& name, const std::vector<std::string>& names) {
  const auto own = split(CAPSTAN_COMMANDS, ' ');
  if (std::find(own.begin(), own.end(), name) == own.end()) return suggestion(name, names);
  return cat("this installation lacks ", (plugin::Host::builtin_folder() / "command" / (name + ".so")).string(),
             ": build it (`ninja installable` in a build folder) or install it, or name the folder that holds command/",
             name, ".so in CAPSTAN_PLUGIN_PATH");
}

}  // namespace capstan::cli
