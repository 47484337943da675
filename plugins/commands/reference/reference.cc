#include "reference.h"

#include <capstan/base/exit_code.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/command.h>
#include <capstan/setup/host_schemas.h>

#include <algorithm>

#include "filter.h"

namespace reference {
namespace {

using namespace capstan;

constexpr const char* introduction = R"(# Configuration reference

<!-- Made by the program from its own option tables; `tools/check-binaries` compares. Do not edit. -->

A configuration is a TOML file. `extends = "base.toml"` (or a list of files) at its top reads other files first; they
are merged table by table, and what stands in the file itself wins. On the command line `table.option=value` sets one
option over all files: `train.max_steps=250`, `strategy.fsdp.mode=no_shard`.

Relative paths start at the folder of the file that names them; on the command line, at the current folder.
`capstan check CONFIG` finds every mistake without running anything.
)";

std::string default_cell(const config::OptionSpec& spec) {
  const auto text = default_text(spec);
  return spec.required || std::holds_alternative<std::monostate>(spec.default_value) ? text : code(text);
}

std::string meaning(const config::OptionSpec& spec) {
  std::string out = cell(spec.doc);
  if (const auto limits = config::limits_text(spec); !limits.empty()) out += cat(out.empty() ? "" : "; ", cell(limits));
  return out;
}

std::string options_table(const config::Schema& schema) {
  if (schema.empty()) return "It has no options.\n";
  std::string out = "| option | type | default | meaning |\n|---|---|---|---|\n";
  for (const auto& spec : config::listed(schema)) {
    out += cat("| ", code(spec.key), " | ", type_text(spec), " | ", default_cell(spec), " | ", meaning(spec), " |\n");
  }
  return out;
}

std::string presets_line(const config::Presets& presets) {
  std::vector<std::string> names;
  for (const auto& [name, values] : presets) names.push_back(code(name));
  return names.empty() ? "" : "Presets: " + join(names) + ".\n\n";
}

// The plugin of a kind that need not be named; empty: it must be.
std::string default_plugin(const std::string& kind) {
  return kind == "optimizer" ? "adamw" : kind == "objective" ? "causal_lm" : "";
}

// Which plugin a kind's only table names.
std::string needed(const std::string& kind) {
  if (kind == "tokenizer") return "A plugin, for what data.tokenizer cannot name";
  const auto name = default_plugin(kind);
  return name.empty() ? "One plugin" : cat("One plugin, ", name, " where none is named");
}

// What the host itself reads of a kind's tables.
config::Schema host_options(const std::string& kind) {
  auto schema = config::host_options(kind);
  const auto name = default_plugin(kind);
  if (name.empty()) return schema;
  for (auto& spec : schema) {
    spec.required = false;
    spec.default_value = name;
  }
  return schema;
}

// The options that the host has in the tables of a kind, below what is said of the kind, then its plugins.
std::string kind_chapter(const std::vector<plugin::Found>& plugins, const std::string& kind, const std::string& about) {
  auto out = about + options_table(host_options(kind));
  for (const auto* plugin : of_kind(plugins, kind)) {
    out += cat("\n### ", config::table_example(kind, plugin->name), "\n\n", plugin->summary, "\n\n",
               presets_line(plugin->presets), options_table(plugin->schema));
  }
  return out;
}

/// capstan reference [WORD…] [--files]
int run(const command::Call& call) {
  command::Arguments arguments;
  std::vector<std::string> words;
  bool files = false;
  arguments.values("words", words, "only options that have all these words in their table, name or meaning");
  arguments.flag("--files", files, "instead the keys of other programs' files (docs/other-files.md)");
  if (const auto code = arguments.read(call)) return *code;
  if (files && !words.empty()) throw Error("--files takes no words", "leave one of them out", "command line");
  const auto found = call.plugins.discover();
  const auto tables = setup::host_schemas();
  terminal::print(files           ? files_markdown(found)
                  : words.empty() ? markdown(tables, found)
                                  : matching(tables, found, words));
  return static_cast<int>(ExitCode::success);
}

}  // namespace

std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string code(const std::string& text) { return "`" + cell(text) + "`"; }

std::vector<const plugin::Registration*> of_kind(const std::vector<plugin::Found>& plugins, const std::string& kind) {
  std::vector<const plugin::Registration*> out;
  for (const auto& one : plugins) {
    if (one.registration && (kind.empty() || one.registration->kind == kind)) out.push_back(one.registration);
  }
  std::sort(out.begin(), out.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  return out;
}

std::string markdown(const std::vector<HostTable>& tables, const std::vector<plugin::Found>& plugins) {
  std::string out = introduction;
  for (const auto& [path, schema] : tables) out += cat("\n## [", path, "]\n\n", options_table(schema));
  for (const auto* command : of_kind(plugins, "command")) {
    if (!command->schema.empty()) out += cat("\n## [", command->name, "]\n\n", options_table(command->schema));
  }
  for (const std::string kind : {"model", "optimizer", "objective", "data", "tokenizer"}) {
    out += kind_chapter(plugins, kind,
                        cat("\n## [", kind, "]\n\n", needed(kind), "; its own options stand in the same table.\n\n"));
  }
  for (const std::string kind : {"strategy", "monitor"}) {
    out += kind_chapter(plugins, kind,
                        cat("\n## [", kind, ".NAME]\n\nOne table for each ", kind,
                            " plugin in use, in any order. Each of them takes:\n\n"));
  }
  return out;
}

CAPSTAN_COMMAND("reference", "0.1.0",
                "print the reference of all options, those that have some words, or the keys of other programs' files",
                run)

}  // namespace reference
