#pragma once
/// Start here to write a command, which people call as `capstan mine …`:
///
///     int mine(const capstan::command::Call& call) { … }
///     CAPSTAN_COMMAND("mine", "1.0", "what it does, in a line of capstan --help", mine)
#include <capstan/command/command.h>
#include <capstan/command/run_extension.h>
#include <capstan/config/options.h>
#include <capstan/plugin/descriptor.h>

namespace capstan::command::detail {

inline std::vector<plugin::Hint> no_hints() { return {}; }

/// A function as a command, which reads its own arguments and has no table in a configuration.
template <int function(const Call&), std::vector<plugin::Hint> hints_of() = no_hints>
class Function : public Command {
 public:
  struct Options {
    static void describe(config::OptionTable<Options>&) {}
    static std::vector<plugin::Hint> hints() { return hints_of(); }
  };
  explicit Function(const config::Options<Options>&) {}
  int run(const Call& call) override { return function(call); }
};

}  // namespace capstan::command::detail

/// The line is a literal without quotes, backslashes and line ends, since it stands in an ELF note too. Last comes the
/// function, which is what Command::run does, and maybe another one that returns hints (capstan/plugin/hint.h).
#define CAPSTAN_COMMAND(name, version, summary, ...)                                                          \
  CAPSTAN_NOTE("2", summary)                                                                                  \
  CAPSTAN_PLUGIN(                                                                                             \
      "command", name, version, summary,                                                                      \
      (&capstan::plugin::add_type<capstan::command::Command, capstan::command::detail::Function<__VA_ARGS__>, \
                                  capstan::command::detail::Function<__VA_ARGS__>::Options>))

/// For a command that extends runs too: Class is a Command and a RunExtension, and its constructor takes the
/// config::Options<Options> of the table that has the command's name.
#define CAPSTAN_RUN_COMMAND(name, version, summary, Class, Options) \
  CAPSTAN_NOTE("2", summary)                                        \
  CAPSTAN_NOTE("5", "table")                                        \
  CAPSTAN_PLUGIN("command", name, version, summary,                 \
                 (&capstan::plugin::add_type<capstan::command::Command, Class, Options>))
