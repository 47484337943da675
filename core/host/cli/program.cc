#include "cli/program.h"

#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/paths.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/own_commands.h"
#include "cli/plugins_command.h"
#include "launch/error_report.h"
#include "launch/lost_file.h"
#include "plugin/hints.h"

namespace capstan::cli {
namespace {

// Says why the arguments could not be read, or the help that they ask for. The exit code.
int parse_failure(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& arguments,
                  plugin::Host& host) {
  const auto say = [](const std::string& text) {
    terminal::print_error(text);
    return static_cast<int>(ExitCode::usage);
  };
  const auto first = arguments.empty() ? std::string() : arguments.front();
  if (app.get_subcommands().empty() && !first.empty() && first[0] != '-') {
    return say(
        launch::error_text(Error(cat("there is no command '", first, "'"), fix_of_unknown(first, command_names(app)))));
  }
  if (error.get_exit_code() != 0) {  // not the help
    const auto faults = plugin::flag_faults(arguments, host.hints());
    if (!faults.empty()) return say(launch::error_text(Error(faults.list())));
  }
  terminal::PrintedStream out(terminal::print);
  terminal::PrintedStream err(terminal::print_error);
  const auto code = app.exit(error, out, err);
  return code == 0 ? 0 : static_cast<int>(ExitCode::usage);
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

// A name that a script's variable left empty: it would be the current folder, or be ignored.
void refuse_empty_names(CLI::App& app) {
  const auto fault = [](const std::string& text) {
    return text.empty() ? std::string("it is empty: name something, or leave it out") : std::string();
  };
  for (auto* command : app.get_subcommands([](CLI::App*) { return true; })) {
    refuse_empty_names(*command);
    for (auto* option : command->get_options()) {
      if (option->get_type_size() != 0) option->check(fault);
    }
  }
}

int code_of(const std::exception& error, bool is_run, plugin::Host& host) {
  const auto* known = dynamic_cast<const Error*>(&error);
  const int code = known ? launch::report_exception(plugin::with_hints(*known, host)) : launch::report_exception(error);
  return code == static_cast<int>(ExitCode::failure) && !is_run ? static_cast<int>(ExitCode::usage) : code;
}

// Calls the plugin that the first word names, and returns its exit code. Nothing: it names none, and the parser, which
// then knows what plugins there are, has the word.
std::optional<int> called_plugin(CLI::App& app, const std::vector<std::string>& words, const launch::Environment& env,
                                 plugin::Host& host) {
  const auto name = words.empty() ? std::string() : words.front();
  const auto own = command_names(app);
  if (name == "--version" || std::find(own.begin(), own.end(), name) != own.end()) return {};
  const auto commands = host.commands();
  list_commands(app, commands);
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
  CLI::App app{
      "Capstan trains large language models; strategies, models, optimizers, data and monitors are plugins named in a "
      "TOML file."};
  app.set_version_flag("--version", "capstan " + version());
  app.require_subcommand(1);
  app.footer("Every option of a configuration: docs/configuration.md, or capstan plugins NAME.");
  Chosen chosen;
  const std::vector<std::string> words(argv + 1, argv + argc);
  auto host = plugin_host(env);
  add_run_command(app, chosen);
  add_check_command(app, chosen);
  add_plugins_command(app, chosen);
  refuse_empty_names(app);
  if (const auto code = called_plugin(app, words, env, host)) return *code;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return with_output(parse_failure(app, error, words, host), /*is_result=*/true);
  }
  try {
    return with_output(chosen({argc, argv, env}), !app.got_subcommand("run"));
  } catch (const std::exception& error) {
    return code_of(error, app.got_subcommand("run"), host);
  }
}

}  // namespace capstan::cli
