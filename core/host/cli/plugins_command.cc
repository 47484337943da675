#include "cli/plugins_command.h"

#include <capstan/base/counted.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <tuple>

namespace capstan::cli {
namespace {

std::vector<plugin::Found> usable(const std::vector<plugin::Found>& found) {
  std::vector<plugin::Found> out;
  std::copy_if(found.begin(), found.end(), std::back_inserter(out), [](const auto& one) { return one.registration; });
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return std::tie(a.kind, a.name) < std::tie(b.kind, b.name); });
  return out;
}

std::string options_text(const config::Schema& schema) {
  if (schema.empty()) return "It has no options.\n";
  std::vector<std::vector<std::string>> rows{{"option", "type", "default", "limits", "meaning"}};
  for (const auto& spec : config::listed(schema)) {
    rows.push_back({spec.key, type_text(spec), default_text(spec), config::limits_text(spec), spec.doc});
  }
  return table_text(rows);
}

// "Presets: a, b" as a line, or nothing.
std::string presets_text(const config::Presets& presets) {
  std::vector<std::string> names;
  for (const auto& [name, values] : presets) names.push_back(name);
  return names.empty() ? "" : "Presets: " + join(names) + "\n";
}

}  // namespace

std::string plugins_text(const std::vector<plugin::Found>& found) {
  std::vector<std::vector<std::string>> rows{{"kind", "name", "version", "summary", "file"}};
  for (const auto& one : usable(found)) {
    const auto& about = *one.registration;
    rows.push_back({about.kind, about.name, about.version, about.summary, about.file});
  }
  std::string out = rows.size() > 1 ? table_text(rows) : "No plugin was found that can be used.\n";
  const auto broken = std::count_if(found.begin(), found.end(), [](const auto& one) { return !one.registration; });
  if (broken > 0) out += cat("\n", counted(broken, "file"), " cannot be used:\n");
  for (const auto& one : found) {
    if (!one.registration) out += one.problem + "\n";
  }
  return out;
}

std::string plugin_text(const std::vector<plugin::Found>& found, const std::string& name) {
  std::string out;
  std::vector<std::string> names;
  for (const auto& one : usable(found)) {
    const auto& about = *one.registration;
    names.push_back(about.name);
    if (about.name != name) continue;
    out += cat(out.empty() ? "" : "\n", about.name, " (", about.kind, ", ", about.version, "): ", about.summary, "\n",
               about.file, "\n");
    if (about.kind == "command") {
      out += cat("Call: capstan ", about.name, " --help\n");
      if (about.schema.empty()) continue;
    }
    out += cat("Table: ", config::table_example(about.kind, about.name), "\n", presets_text(about.presets), "\n",
               options_text(about.schema));
  }
  if (!out.empty()) return out;
  for (const auto& one : found) {
    if (one.name == name) throw Error(one.problem);
  }
  throw Error(cat("there is no plugin '", name, "'"), suggestion(name, names));
}

void add_plugins_command(CLI::App& app, Chosen& chosen) {
  auto* plugins = app.add_subcommand("plugins", "list the plugins that are found, or the options of one");
  const auto name = std::make_shared<std::string>();
  plugins->add_option("name", *name, "a plugin");
  choose_with(*plugins, chosen, [name](const Process& process) {
    auto host = plugin_host(process.env);  // which owns what is found
    const auto found = host.discover();
    terminal::print(name->empty() ? plugins_text(found) : plugin_text(found, *name));
    return static_cast<int>(ExitCode::success);
  });
}

}  // namespace capstan::cli
