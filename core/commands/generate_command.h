#pragma once
#include <capstan/base/export.h>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"

CAPSTAN_BEGIN_NAMESPACE
namespace commands {

struct GenerateArguments {
  std::string model;                   ///< see choose_model
  std::vector<std::string> prompts;    ///< none: they come from standard input, one a line
  std::vector<std::string> overrides;  ///< options of a configuration
  bool json = false;                   ///< standard input and output are JSON lines
  int ranks = 0;                       ///< local ranks to start; 0: not given
  int argc = 0;
  char** argv = nullptr;
};

/// A prompt of the input, and what of its line goes to the output.
struct PromptLine {
  std::string text;
  std::string id;  ///< JSON; empty: the line has none
};

/// Prompts from a stream, one a line; with `json` each line is {"prompt": ..., "id": ...}. Throws Error that names the
/// line.
std::vector<PromptLine> read_prompts(std::istream& in, bool json);

/// `capstan generate`: answers prompts. Returns the exit code.
int generate_command(const GenerateArguments& arguments, const launch::Environment& env);

/// Declares it.
void add_generate_command(CLI::App& app, cli::Chosen& chosen);

}  // namespace commands
CAPSTAN_END_NAMESPACE
