#pragma once
#include <capstan/base/export.h>

#include <string>

#include "cli/command.h"

CAPSTAN_BEGIN_NAMESPACE
namespace commands {

struct ExportArguments {
  std::string run;             ///< a run's folder
  std::string to = "hf";       ///< the format
  std::string quantization;    ///< hf: frozen weights in this form; empty: as numbers
  bool merge = false;          ///< hf: adapters are added into the model
  std::string out;             ///< the folder to write; empty: model, or adapter, in the run's folder
  std::string dtype = "auto";  ///< auto, fp32, bf16 or fp16
  double shard_gb = 5;         ///< largest file, 10^9 bytes
};

/// `capstan export`: writes a run's weights as a folder that transformers loads, and prints where. Throws Error.
int export_command(const ExportArguments& arguments, const launch::Environment& env);

/// Declares it.
void add_export_command(CLI::App& app, cli::Chosen& chosen);

}  // namespace commands
CAPSTAN_END_NAMESPACE
