#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/log.h>
#include <capstan/base/paths.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/command.h>
#include <capstan/monitor/output_file.h>

#include <chrono>

#include "page.h"
#include "serve.h"
#include "tables.h"

namespace report {
namespace {

using namespace capstan;

struct ReportChoice {
  std::vector<std::string> runs;
  std::vector<std::string> tables;
  std::string format = "text";
  std::string base;    // the run that the others are compared with; empty: the smallest
  std::string output;  // empty: standard output
  bool serve = false;  // the page is given to browsers until the program is ended
  int port = 8265;
  bool leave_out = false;  // runs that are not there: said, and no error as long as there is one
};

std::vector<std::string> folders_of(const ReportChoice& choice) {
  if (!choice.leave_out) return choice.runs;
  std::vector<std::string> there;
  for (const auto& folder : choice.runs) {
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
void warn(const ReportChoice& choice, const std::vector<Table>& tables) {
  if (choice.format != "csv" && choice.output.empty()) return;
  for (const auto& table : tables) {
    for (const auto& warning : table.warnings) log::warning(cat(table.name, ": ", warning));
  }
}

std::vector<Table> tables_of(const ReportChoice& choice, const std::vector<runs::Run>& read) {
  std::vector<Table> tables;
  for (const auto& name : choice.tables) tables.push_back(fill_table(name, read, choice.base));
  if (tables.empty()) tables.push_back(fill_table("runs", read, choice.base));
  return tables;
}

std::string page_text(const ReportChoice& choice, const std::vector<runs::Run>& read,
                      const std::vector<Table>& tables) {
  return page_of("Capstan: runs", tables, read, base_of(read, choice.base));
}

std::string report_text(const ReportChoice& choice) {
  const auto read = runs::read_runs(folders_of(choice));
  const auto tables = tables_of(choice, read);
  warn(choice, tables);
  if (choice.format == "html") return page_text(choice, read, tables);
  std::string out;
  for (const auto& table : tables) {
    if (!out.empty()) out += "\n";
    if (choice.format == "csv") {
      out += csv_of(table);
    } else {
      out += choice.format == "markdown" ? markdown_of(table) : text_of(table);
    }
  }
  return out;
}

int print_report(const ReportChoice& choice) {
  monitor::check_output(choice.output);
  const auto text = report_text(choice);
  if (choice.output.empty()) {
    terminal::print(text);
  } else {
    monitor::write_output(choice.output, text);
    terminal::print(cat("written: ", choice.output, "\n"));
  }
  return static_cast<int>(ExitCode::success);
}

// The runs are read again each time that a browser asks. Ends with the process.
[[noreturn]] void serve_report(const ReportChoice& choice) {
  using namespace std::chrono_literals;
  const auto page = [&] {
    const auto read = runs::read_runs(folders_of(choice));
    return page_text(choice, read, tables_of(choice, read));
  };
  (void)page();  // what is wrong with the call is said here and now
  PageServer server(choice.port);
  terminal::print(cat("the report, loaded again every 5 s: ", server.address(), "\nfrom another machine first: ssh -L ",
                      server.port(), ":127.0.0.1:", server.port(), " this machine\nCtrl-C ends it\n"));
  (void)terminal::flush_output();
  for (;;) server.turn(page, 1s);
}

/// capstan report RUN…
int run(const command::Call& call) {
  command::Arguments arguments;
  ReportChoice choice;
  arguments.values("runs", choice.runs, "folders of runs").required();
  // One value each time, so that a folder may follow it.
  arguments
      .values("--table", choice.tables,
              "which table, once for each or with commas between (default runs): " + join(table_names()))
      .one_each("NAME")
      .commas();
  arguments.value("--base", choice.base,
                  "the run that the others are compared with, by its name or folder (default: the smallest)");
  const auto format = arguments.value("--format", choice.format, "text, csv, markdown or html (default text)")
                          .one_of({"text", "csv", "markdown", "html"});
  const auto output = arguments.value("-o,--output", choice.output, "write to this file instead of standard output");
  const auto serve = arguments
                         .flag("--serve", choice.serve,
                               "watch runs in a browser of this machine: the HTML page, which loads itself again")
                         .not_with(format)
                         .not_with(output);
  arguments.value("--port", choice.port, "where --serve listens on 127.0.0.1 (default 8265; 0: a free port)")
      .range(0, 65535)
      .only_with(serve);
  arguments.flag("--leave-out", choice.leave_out, "leave out runs that are not there, with a warning");
  if (const auto code = arguments.read(call)) return *code;
  if (choice.serve) serve_report(choice);
  return print_report(choice);
}

}  // namespace

CAPSTAN_COMMAND("report", "0.1.0",
                "compare runs, also while they train: tables as text, CSV or Markdown, plots as HTML", run)

}  // namespace report
