#pragma once
/// Start here to write a command, which people call as `capstan mine …`:
///
///     class Mine : public capstan::command::Command { … };
///     CAPSTAN_COMMAND("mine", "1.0", "what it does, in a line of capstan --help", Mine)
#include <capstan/command/command.h>
#include <capstan/command/run_extension.h>
#include <capstan/config/options.h>
#include <capstan/plugin/descriptor.h>

namespace capstan::command::detail {

/// Commands read their own arguments and have no table in a configuration. They may have hints().
template <class Class>
struct NoOptions {
  static void describe(config::OptionTable<NoOptions>&) {}
  static std::vector<plugin::Hint> hints() {
    if constexpr (requires { Class::hints(); }) return Class::hints();
    return {};
  }
};

template <class Class>
class Made : public Command {
 public:
  explicit Made(const config::Options<NoOptions<Class>>&) {}
  int run(const Call& call) override { return command_.run(call); }

 private:
  Class command_;
};

}  // namespace capstan::command::detail

/// The line is a literal without quotes, backslashes and line ends, since it stands in an ELF note too.
#define CAPSTAN_COMMAND(name, version, summary, Class)                                                         \
  CAPSTAN_NOTE("2", summary)                                                                                   \
  CAPSTAN_PLUGIN("command", name, version, summary,                                                            \
                 (&capstan::plugin::add_type<capstan::command::Command, capstan::command::detail::Made<Class>, \
                                             capstan::command::detail::NoOptions<Class>>))

/// The same for a command that extends runs too: Class is a command::RunExtension as well, and its constructor takes
/// the config::Options<Options> of the table that has the command's name.
#define CAPSTAN_RUN_COMMAND(name, version, summary, Class, Options) \
  CAPSTAN_NOTE("2", summary)                                        \
  CAPSTAN_NOTE("5", "table")                                        \
  CAPSTAN_PLUGIN("command", name, version, summary,                 \
                 (&capstan::plugin::add_type<capstan::command::Command, Class, Options>))
