#include "cli/import_deepspeed_command.h"

#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>

#include <CLI/CLI.hpp>

#include "foreign/deepspeed_keys.h"
#include "migrate/import_deepspeed.h"

namespace capstan::cli {

int import_deepspeed_command(const std::string& file) {
  if (file.empty()) {
    terminal::print(foreign::deepspeed_keys_markdown());
    return static_cast<int>(ExitCode::success);
  }
  const auto imported = migrate::import_deepspeed(file, read_file(file));
  terminal::print(imported.toml);
  for (const auto& note : imported.notes) terminal::print_error(cat("capstan: ", file, ": ", note, "\n"));
  return static_cast<int>(ExitCode::success);
}

void add_import_deepspeed_command(CLI::App& app, Chosen& chosen) {
  auto* command = app.add_subcommand("import-deepspeed",
                                     "print a DeepSpeed configuration as TOML; without a file, what its keys become");
  const auto file = std::make_shared<std::string>();
  command->add_option("file", *file, "DeepSpeed's JSON file");
  choose_with(*command, chosen, [file](const Process&) { return import_deepspeed_command(*file); });
}

}  // namespace capstan::cli
