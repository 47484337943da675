#pragma once
#include <capstan/command/command.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace arguments {

/// Reads a command's arguments by what was declared to `app`. Returns an exit code if that is all there is to do: the
/// help was asked for and printed, or the arguments are wrong, which was said. Of options and positional arguments that
/// have a value none may be empty, since a script's unset variable leaves such a one, but for `texts`. Throws Error for
/// a flag that is another program's, and says what it is here.
std::optional<int> read(CLI::App& app, const capstan::command::Call& call, const CLI::Option* texts = nullptr);

/// Declares -n.
void add_ranks(CLI::App& app, int& ranks);

/// Declares the configuration file and options that win over it, as every command takes them.
void add_config(CLI::App& app, std::string& config, std::vector<std::string>& overrides);

}  // namespace arguments
