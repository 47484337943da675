#pragma once
#include <capstan/base/export.h>
#include <capstan/data/source.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command.h"

CAPSTAN_BEGIN_NAMESPACE
namespace commands {

struct DataArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string split = "train";  ///< or "eval"
  std::int64_t show = 3;        ///< samples
  std::int64_t from = 0;        ///< the first one
};

/// A part of a sample's text; what bears no loss is printed dimmed on a terminal, else in ⟦ ⟧.
struct SamplePart {
  std::string text;
  bool bears_loss = false;
};
/// A sample as the model sees it. Ids that have no text, such as an end token's, stand as [id 2].
std::vector<SamplePart> sample_parts(const data::Sample& sample, const tokenizer::Tokenizer& tokenizer);

/// `capstan data`: prints samples, with counts. Returns the exit code.
int data_command(const DataArguments& arguments, const launch::Environment& env, bool terminal);

/// Declares it.
void add_data_command(CLI::App& app, cli::Chosen& chosen);

}  // namespace commands
CAPSTAN_END_NAMESPACE
