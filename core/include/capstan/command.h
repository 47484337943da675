#pragma once
/// Start here to write a command, which people call as `capstan mine …`:
///
///     int mine(const capstan::command::Call& call) {
///       capstan::command::Arguments arguments;
///       arguments.value("run", folder, "the run's folder").required();
///       arguments.value("--every", every_s, "seconds between two looks (default 2)").real_range(0.1, 3600);
///       if (const auto code = arguments.read(call)) return *code;
///       …
///     }
///     CAPSTAN_COMMAND("mine", "1.0", "what it does, in a line of capstan --help", mine)
#include <capstan/command/arguments.h>
#include <capstan/command/command.h>
#include <capstan/command/run_extension.h>
#include <capstan/config/options.h>
#include <capstan/plugin/descriptor.h>

namespace capstan::command::detail {

inline std::vector<plugin::Hint> no_hints() { return {}; }
inline std::vector<config::FileKeys> no_file_keys() { return {}; }

/// A function as a command, which reads its own arguments and has no table in a configuration.
template <int function(const Call&), std::vector<plugin::Hint> hints_of() = no_hints,
          std::vector<config::FileKeys> file_keys_of() = no_file_keys>
class Function : public Command {
 public:
  struct Options {
    static void describe(config::OptionTable<Options>&) {}
    static std::vector<plugin::Hint> hints() { return hints_of(); }
    static std::vector<config::FileKeys> file_keys() { return file_keys_of(); }
  };
  explicit Function(const config::Options<Options>&) {}
  int run(const Call& call) override { return function(call); }
};

}  // namespace capstan::command::detail

/// The line is a literal without quotes, backslashes and line ends, since it stands in an ELF note too. Last comes the
/// function, which is what Command::run does, and maybe one that returns hints (capstan/plugin/hint.h) and one that
/// returns the keys of another program's file (capstan/config/file_keys.h).
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
