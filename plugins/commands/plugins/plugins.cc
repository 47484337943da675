#include "plugins.h"

#include <capstan/base/counted.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/command.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <tuple>

namespace plugins {

using namespace capstan;
using plugin::Found;

namespace {

struct Kind {
  const char* name;
  const char* plural;
};
constexpr std::array kinds{
    Kind{"model", "models"},         Kind{"strategy", "strategies"}, Kind{"optimizer", "optimizers"},
    Kind{"objective", "objectives"}, Kind{"data", "data"},           Kind{"tokenizer", "tokenizers"},
    Kind{"monitor", "monitors"},     Kind{"command", "commands"}};

// The kind that a word means; empty: it means none.
std::string kind_of(const std::string& word) {
  for (const auto& kind : kinds) {
    if (word == kind.name || word == kind.plural) return kind.name;
  }
  return {};
}

std::vector<Found> usable(const std::vector<Found>& found) {
  std::vector<Found> out;
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

std::string one_text(const plugin::Registration& about) {
  auto out = cat(about.name, " (", about.kind, ", ", about.version, "): ", about.summary, "\n", about.file, "\n");
  if (about.kind == "command") out += cat("Call: capstan ", about.name, " --help\n");
  if (about.kind == "command" && about.schema.empty()) return out;
  return out + cat("Table: ", config::table_example(about.kind, about.name), "\n", presets_text(about.presets), "\n",
                   options_text(about.schema));
}

[[noreturn]] void fail_unknown(const std::vector<Found>& found, const std::string& word) {
  std::vector<std::string> names;
  for (const auto& one : found) {
    if (one.name == word) throw Error(one.problem);
    if (one.registration) names.push_back(one.name);
  }
  for (const auto& kind : kinds) names.emplace_back(kind.name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  throw Error(cat("there is no plugin '", word, "', nor such a kind"), suggestion(word, names));
}

/// Each problem once: without LibTorch every plugin that needs the engine has the same.
std::string problems_text(const std::vector<Found>& found) {
  std::vector<std::pair<std::string, int>> problems;
  for (const auto& one : found) {
    if (one.registration) continue;
    const auto same =
        std::find_if(problems.begin(), problems.end(), [&](const auto& has) { return has.first == one.problem; });
    if (same == problems.end()) {
      problems.emplace_back(one.problem, 1);
    } else {
      ++same->second;
    }
  }
  std::string out;
  for (const auto& [problem, files] : problems) {
    out += cat(problem, files > 1 ? cat("\n    so it is with ", files, " files") : "", "\n");
  }
  return out;
}

/// capstan plugins [KIND | NAME]
int run(const command::Call& call) {
  command::Arguments arguments;
  std::string word;
  arguments.value("plugin", word,
                  "a plugin, whose options are shown, or a kind: model, strategy, optimizer, objective, data, "
                  "tokenizer, monitor, command");
  if (const auto code = arguments.read(call)) return *code;
  const auto found = call.plugins.discover();
  terminal::print(word.empty() ? list_text(found) : text_of(found, word));
  return static_cast<int>(ExitCode::success);
}

}  // namespace

std::string list_text(const std::vector<Found>& found) {
  std::vector<std::vector<std::string>> rows{{"kind", "name", "version", "summary", "file"}};
  for (const auto& one : usable(found)) {
    const auto& about = *one.registration;
    rows.push_back({about.kind, about.name, about.version, about.summary, about.file});
  }
  std::string out = rows.size() > 1 ? table_text(rows) : "No plugin was found that can be used.\n";
  const auto broken = std::count_if(found.begin(), found.end(), [](const auto& one) { return !one.registration; });
  if (broken > 0) out += cat("\n", counted(broken, "file"), " cannot be used:\n", problems_text(found));
  return out;
}

std::string text_of(const std::vector<Found>& found, const std::string& word) {
  std::string out;
  for (const auto& one : usable(found)) {
    if (one.name == word) out += (out.empty() ? "" : "\n") + one_text(*one.registration);
  }
  if (const auto kind = kind_of(word); !kind.empty()) {
    auto of_kind = found;
    std::erase_if(of_kind, [&](const Found& one) { return one.kind != kind && !one.kind.empty(); });
    out = list_text(of_kind) + (out.empty() ? "" : "\n") + out;
  }
  if (out.empty()) fail_unknown(found, word);
  return out;
}

CAPSTAN_COMMAND("plugins", "0.1.0", "list the plugins that are found, all or those of a kind, or the options of one",
                run)

}  // namespace plugins
