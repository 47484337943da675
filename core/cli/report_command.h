#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

#include "cli/command.h"

CAPSTAN_BEGIN_NAMESPACE
namespace cli {

struct ReportArguments {
  std::vector<std::string> runs;
  std::vector<std::string> tables;
  std::string format = "text";
  std::string base;        ///< the run that the others are compared with; empty: the smallest
  std::string output;      ///< empty: standard output
  bool leave_out = false;  ///< runs that are not there: said, and no error as long as there is one
};

/// `capstan report`: the workshop's tables from run folders.
int report_command(const ReportArguments& arguments);

/// --table: once for each, or with commas between.
void add_table_option(CLI::App& command, std::vector<std::string>& tables, const std::string& help);

/// Declares it.
void add_report_command(CLI::App& app, Chosen& chosen);

}  // namespace cli
CAPSTAN_END_NAMESPACE
