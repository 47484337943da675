#include "cli/program.h"

#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/paths.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "launch/cpu_share.h"
#include "launch/error_report.h"
#include "launch/lost_file.h"
#include "plugin/hints.h"

namespace capstan::cli {
namespace {

// Says why the arguments could not be read, or the help that they ask for. The exit code.
int say(const command::Arguments& arguments, const command::Unread& unread, const std::vector<std::string>& words,
        plugin::Host& host) {
  auto text = unread.text;
  const auto first = words.empty() ? std::string() : words.front();
  if (arguments.chosen().empty() && !first.empty() && first[0] != '-') {
    const auto fix = fix_of_unknown(first, arguments.actions());
    text = launch::error_text(Error(cat("there is no command '", first, "'"), fix));
  } else if (!unread.is_fault) {
    terminal::print(text);
    return static_cast<int>(ExitCode::success);
  } else if (const auto faults = plugin::flag_faults(words, host.hints()); !faults.empty()) {
    text = launch::error_text(Error(faults.list()));
  }
  terminal::print_error(text);
  return static_cast<int>(ExitCode::usage);
}

// What a command has printed is its result: where that did not all arrive, all is not well. A run's lie in its folder.
int with_output(int code, bool is_result) {
  if (terminal::flush_output()) return code;
  const int reason = errno;
  terminal::print_error(cat("capstan: ", is_result ? "error" : "warning",
                            "\nnot all could be written to standard output",
                            reason == 0 ? "" : ": " + meaning_of(reason), "\n"));
  return is_result && code == static_cast<int>(ExitCode::success) ? static_cast<int>(ExitCode::failure) : code;
}

// Where a shell has closed standard input, output or error, a file that the program opens would get that number, and
// what is printed would land in it. Output that nothing can read is opened so that writing to it fails, which is
// reported.
void keep_standard_descriptors() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(number, F_GETFD) < 0 && errno == EBADF) (void)::open("/dev/null", O_RDONLY);
  }
}

int code_of(const std::exception& error, bool is_run, plugin::Host& host) {
  const auto* known = dynamic_cast<const Error*>(&error);
  const int code = known ? launch::report_exception(plugin::with_hints(*known, host)) : launch::report_exception(error);
  return code == static_cast<int>(ExitCode::failure) && !is_run ? static_cast<int>(ExitCode::usage) : code;
}

// Calls the plugin that the first word names, and returns its exit code. Nothing: it names none, and the parser, which
// then knows what plugins there are, has the word.
std::optional<int> called_plugin(command::Arguments& arguments, const std::vector<std::string>& words,
                                 const launch::Environment& env, plugin::Host& host) {
  const auto name = words.empty() ? std::string() : words.front();
  const auto own = arguments.actions();
  if (name == "--version" || std::find(own.begin(), own.end(), name) != own.end()) return {};
  const auto commands = host.commands();
  list_commands(arguments, commands);
  if (std::none_of(commands.begin(), commands.end(), [&](const auto& one) { return one.name == name; })) return {};
  try {
    return with_output(call_command(host, name, {words.begin() + 1, words.end()}, env), /*is_result=*/true);
  } catch (const std::exception& error) {
    return code_of(error, /*is_run=*/false, host);
  }
}

}  // namespace

int program(int argc, char** argv) {
  keep_standard_descriptors();
  launch::report_lost_files();
  const auto env = launch::process_environment();
  launch::calm_waiting_threads(env);
  command::Arguments arguments(
      argv[0],
      "Capstan trains large language models; strategies, models, optimizers, data and monitors are plugins named in a "
      "TOML file.");
  arguments.version("capstan " + version());
  arguments.add_footer(
      "Every option of a configuration: docs/configuration.md, capstan reference WORD or capstan plugins NAME.");
  const std::vector<std::string> words(argv + 1, argv + argc);
  auto host = plugin_host(env);
  OwnCommands own;
  own.run.command_line.assign(argv, argv + argc);
  declare_own(arguments, own);
  if (const auto code = called_plugin(arguments, words, env, host)) return *code;
  if (const auto unread = arguments.parse(words))
    return with_output(say(arguments, *unread, words, host), /*is_result=*/true);
  const bool is_run = arguments.chosen() == "run";
  try {
    return with_output(call_own(arguments.chosen(), own, env), !is_run);
  } catch (const std::exception& error) {
    return code_of(error, is_run, host);
  }
}

}  // namespace capstan::cli
