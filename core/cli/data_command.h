#pragma once
#include <capstan/base/export.h>
#include <capstan/data/source.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command.h"

CAPSTAN_BEGIN_NAMESPACE
namespace cli {

struct DataArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string split = "train";  ///< or "eval"
  std::int64_t show = 3;        ///< samples
  std::int64_t from = 0;        ///< the first one
};

/// A sample as the model sees it: what bears no loss is dimmed on a terminal, else set in ⟦ ⟧. Ids that have no text,
/// such as an end token's, stand as [id 2].
std::string sample_text(const data::Sample& sample, const tokenizer::Tokenizer& tokenizer, bool terminal);

/// `capstan data`: prints samples, with counts. Returns the exit code.
int data_command(const DataArguments& arguments, const launch::Environment& env, bool terminal);

/// Declares it.
void add_data_command(CLI::App& app, Chosen& chosen);

}  // namespace cli
CAPSTAN_END_NAMESPACE
