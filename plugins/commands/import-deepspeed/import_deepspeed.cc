#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/command.h>

#include "deepspeed_keys.h"
#include "hints.h"
#include "translate.h"

namespace import_deepspeed {
namespace {

using namespace capstan;

/// capstan import-deepspeed FILE: the TOML on standard output, the notes on standard error. Without a file it prints
/// the table of keys.
int run(const command::Call& call) {
  command::Arguments arguments;
  std::string file;
  arguments.value("file", file, "DeepSpeed's JSON file");
  if (const auto code = arguments.read(call)) return *code;
  if (file.empty()) {
    terminal::print(deepspeed_keys_markdown());
    return static_cast<int>(ExitCode::success);
  }
  const auto translated = translate(file, read_file(file));
  terminal::print(translated.toml);
  for (const auto& note : translated.notes) terminal::print_error(cat("capstan: ", file, ": ", note, "\n"));
  return static_cast<int>(ExitCode::success);
}

}  // namespace

CAPSTAN_COMMAND("import-deepspeed", "0.1.0",
                "print a DeepSpeed configuration as TOML; without a file, what its keys become", run, all_hints,
                deepspeed_file_keys)
CAPSTAN_HINTS

}  // namespace import_deepspeed
