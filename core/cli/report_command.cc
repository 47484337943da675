#include "cli/report_command.h"

#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/log.h>
#include <capstan/base/paths.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/monitor/output_file.h>

#include <CLI/CLI.hpp>

#include "report/page.h"
#include "report/tables.h"

namespace capstan::cli {
namespace {

std::vector<std::string> folders_of(const ReportArguments& arguments) {
  if (!arguments.leave_out) return arguments.runs;
  std::vector<std::string> there;
  for (const auto& folder : arguments.runs) {
    if (is_there(folder)) {
      there.push_back(folder);
    } else {
      log::warning(cat("there is no run ", folder, ": it is left out"));
    }
  }
  if (there.empty()) throw Error("none of these runs is there", "look at what their jobs printed");
  return there;
}

// What the reader of the terminal does not see in the table: CSV has no notes, and a file is elsewhere.
void warn(const ReportArguments& arguments, const std::vector<report::Table>& tables) {
  if (arguments.format != "csv" && arguments.output.empty()) return;
  for (const auto& table : tables) {
    for (const auto& warning : table.warnings) log::warning(cat(table.name, ": ", warning));
  }
}

std::string report_text(const ReportArguments& arguments) {
  const auto runs = report::read_runs(folders_of(arguments));
  std::vector<report::Table> tables;
  for (const auto& name : arguments.tables) tables.push_back(report::fill_table(name, runs, arguments.base));
  if (tables.empty()) tables.push_back(report::fill_table("runs", runs, arguments.base));
  warn(arguments, tables);
  if (arguments.format == "html")
    return report::page_of("Capstan: runs", tables, runs, report::base_of(runs, arguments.base));
  std::string out;
  for (const auto& table : tables) {
    if (!out.empty()) out += "\n";
    if (arguments.format == "csv") {
      out += report::csv_of(table);
    } else {
      out += arguments.format == "markdown" ? report::markdown_of(table) : report::text_of(table);
    }
  }
  return out;
}

std::string table_list() {
  std::vector<std::string> names;
  for (const auto& table : report::table_names()) names.push_back(table.name);
  return "which table, once for each or with commas between (default runs): " + join(names);
}

}  // namespace

int report_command(const ReportArguments& arguments) {
  monitor::check_output(arguments.output);
  const auto text = report_text(arguments);
  if (arguments.output.empty()) {
    terminal::print(text);
  } else {
    monitor::write_output(arguments.output, text);
    terminal::print(cat("written: ", arguments.output, "\n"));
  }
  return static_cast<int>(ExitCode::success);
}

void add_table_option(CLI::App& command, std::vector<std::string>& tables, const std::string& help) {
  // One value each time, so that a folder may follow it.
  command.add_option("--table", tables, help)
      ->type_name("NAME")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
}

void add_report_command(CLI::App& app, Chosen& chosen) {
  auto* command =
      app.add_subcommand("report", "fill the workshop's tables from the folders of runs, with plots as HTML");
  const auto given = std::make_shared<ReportArguments>();
  command->add_option("runs", given->runs, "folders of runs")->required();
  add_table_option(*command, given->tables, table_list());
  command->add_option("--base", given->base,
                      "the run that the others are compared with, by its name or folder (default: the smallest)");
  command->add_option("--format", given->format, "text, csv, markdown or html (default text)")
      ->check(CLI::IsMember({"text", "csv", "markdown", "html"}));
  command->add_option("-o,--output", given->output, "write to this file instead of standard output");
  command->add_flag("--leave-out", given->leave_out, "leave out runs that are not there, with a warning");
  choose_with(*command, chosen, [given](const Process&) { return report_command(*given); });
}

}  // namespace capstan::cli
