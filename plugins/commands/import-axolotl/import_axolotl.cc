#include <capstan/base/exit_code.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/command.h>
#include <capstan/monitor/output_file.h>

#include <filesystem>

#include "axolotl_keys.h"
#include "file.h"
#include "translate.h"

namespace import_axolotl {
namespace {

using namespace capstan;

/// capstan import-axolotl FILE [--out C.toml]: the TOML, and on standard error what is left to the user and what was
/// not taken over. Without a file it prints the table of keys.
int run(const command::Call& call) {
  command::Arguments arguments;
  std::string file, out, python;
  arguments.value("file", file, "axolotl's YAML file");
  arguments.value("-o,--out", out, "write the TOML into this file, in the place of standard output");
  arguments.value("--python", python,
                  "the Python 3 with PyYAML that reads it; by default $VIRTUAL_ENV's, else python3");
  if (const auto code = arguments.read(call)) return *code;
  if (file.empty()) {
    terminal::print(axolotl_keys_markdown());
    return static_cast<int>(ExitCode::success);
  }
  monitor::check_output(out);
  const auto translated =
      translate(read_yaml(python, file), {std::filesystem::path(out).parent_path(), call.environment});
  if (out.empty()) {
    terminal::print(translated.toml);
  } else {
    monitor::write_output(out, translated.toml);
  }
  for (const auto* lines : {&translated.notes, &translated.choices}) {
    for (const auto& line : *lines) terminal::print_error(cat("capstan: ", line, "\n"));
  }
  const auto count = translated.choices.size();
  if (count > 0) {
    terminal::print_error(cat("capstan: ", file, ": ", count, count == 1 ? " option is" : " options are",
                              " left to you: the TOML's lines with \"choose\"\n"));
  }
  return static_cast<int>(ExitCode::success);
}

}  // namespace

CAPSTAN_COMMAND("import-axolotl", "0.1.0",
                "print an axolotl configuration as TOML; without a file, what its keys become", run,
                command::detail::no_hints, axolotl_file_keys)

}  // namespace import_axolotl
