#pragma once
#include <string>
#include <vector>

#include "cli/command.h"

namespace capstan::commands {

struct EvalArguments {
  std::string config;  ///< a configuration file, or a run's folder or checkpoint
  std::vector<std::string> overrides;
  std::string split = "eval";  ///< or "train"
  long long samples = -1;      ///< questions to answer, the first ones; -1: all
  int ranks = 0;               ///< local ranks to start; 0: not given
  int argc = 0;
  char** argv = nullptr;
};

/// `capstan eval`: loss and scores of a base model or a run, without training. Writes evaluation-SPLIT.json and
/// predictions-SPLIT.json into a new folder: of a run <run>/evaluations/<weights>. Returns the exit code.
int eval_command(const EvalArguments& arguments, const launch::Environment& env);

/// Declares it.
void add_eval_command(CLI::App& app, cli::Chosen& chosen);

}  // namespace capstan::commands
