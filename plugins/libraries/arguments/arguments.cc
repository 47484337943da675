#include "arguments/arguments.h"

#include <capstan/base/exit_code.h>
#include <capstan/base/terminal.h>
#include <capstan/plugin/hint.h>
#include <capstan/plugin/host.h>

#include <algorithm>

namespace arguments {
namespace {

void refuse_empty(CLI::App& app, const CLI::Option* texts) {
  const auto fault = [](const std::string& text) {
    return text.empty() ? std::string("it is empty: name something, or leave it out") : std::string();
  };
  for (auto* option : app.get_options()) {
    if (option->get_type_size() != 0 && option != texts) option->check(fault);
  }
  for (auto* action : app.get_subcommands([](CLI::App*) { return true; })) refuse_empty(*action, texts);
}

}  // namespace

std::optional<int> read(CLI::App& app, const capstan::command::Call& call, const CLI::Option* texts) {
  app.name("capstan " + call.name);
  app.description(call.summary);
  app.footer("Every option of a configuration: docs/configuration.md, or capstan plugins NAME.");
  refuse_empty(app, texts);
  auto words = call.arguments;
  std::reverse(words.begin(), words.end());  // as the parser wants them
  try {
    app.parse(words);
    return {};
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0)  // not the help
      capstan::plugin::flag_faults(call.arguments, call.plugins.hints()).throw_if_any();
    capstan::terminal::PrintedStream out(capstan::terminal::print);
    capstan::terminal::PrintedStream err(capstan::terminal::print_error);
    return app.exit(error, out, err) == 0 ? 0 : static_cast<int>(capstan::ExitCode::usage);
  }
}

void add_ranks(CLI::App& app, int& ranks) {
  app.add_option("-n,--ranks", ranks, "start this many local ranks")->check(CLI::Range(1, 1000000));
}

void add_config(CLI::App& app, std::string& config, std::vector<std::string>& overrides) {
  app.add_option("config", config, "configuration file (TOML)")->required();
  app.add_option(
      "overrides", overrides,
      "options that win over the file: train.max_steps=250 strategy.PLUGIN.OPTION=VALUE; train.accumulation= "
      "unsets what the file says");
}

}  // namespace arguments
