#include "filter.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <cctype>
#include <tuple>

namespace reference {
namespace {

using namespace capstan;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// A table as a configuration has it, "[strategy.fsdp]", and its options.
struct Table {
  std::string head;
  std::vector<config::OptionSpec> options;
};

std::vector<Table> all_tables(const std::vector<HostTable>& tables, const std::vector<plugin::Found>& plugins) {
  std::vector<Table> all;
  for (const auto& [path, schema] : tables) all.push_back({cat("[", path, "]"), config::listed(schema)});
  std::vector<const plugin::Registration*> found;
  for (const auto& one : plugins) {
    if (one.registration) found.push_back(one.registration);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto* a, const auto* b) {
    return std::tie(a->kind, a->name) < std::tie(b->kind, b->name);
  });
  for (const auto* one : found)
    all.push_back({config::table_example(one->kind, one->name), config::listed(one->schema)});
  return all;
}

// The parts of a head: "strategy" and "fsdp", or "model", "plugin" and "gpt".
std::vector<std::string> parts_of(const std::string& head) {
  std::vector<std::string> parts(1);
  for (const char c : head) {
    const bool is_of_name = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
    if (is_of_name) parts.back() += c;
    if (!is_of_name && !parts.back().empty()) parts.emplace_back();
  }
  return parts;
}

// Is the word the table, or a part of the option's name or of its meaning? "train.acc" is a part of table and name.
bool has(const std::string& head, const config::OptionSpec& spec, const std::string& word) {
  const auto is_in = [&](const std::string& text) { return lower(text).find(word) != std::string::npos; };
  if (is_in(spec.key) || is_in(spec.doc)) return true;
  if (word.find('.') != std::string::npos) return is_in(cat(head.substr(1, head.find(']') - 1), ".", spec.key));
  const auto parts = parts_of(lower(head));
  return std::find(parts.begin(), parts.end(), word) != parts.end();
}

std::string option_text(const config::OptionSpec& spec) {
  auto text =
      cat("  ", spec.key, " (", type_text(spec), ", ", spec.required ? "" : "default ", default_text(spec), ")");
  const auto limits = config::limits_text(spec);
  if (!spec.doc.empty() || !limits.empty()) text += ": ";
  return text + cat(spec.doc, spec.doc.empty() || limits.empty() ? "" : "; ", limits, "\n");
}

}  // namespace

std::string matching(const std::vector<HostTable>& tables, const std::vector<plugin::Found>& plugins,
                     const std::vector<std::string>& words) {
  std::string text;
  std::vector<std::string> names;
  for (const auto& [head, options] : all_tables(tables, plugins)) {
    std::string chosen;
    for (const auto& spec : options) {
      names.push_back(spec.key);
      const auto has_it = [&](const std::string& word) { return has(head, spec, lower(word)); };
      if (std::all_of(words.begin(), words.end(), has_it)) chosen += option_text(spec);
    }
    if (!chosen.empty()) text += cat(text.empty() ? "" : "\n", head, "\n", chosen);
  }
  if (text.empty())
    throw Error(
        cat("no option has ", words.size() == 1 ? "" : "all of ", join(words), " in its table, name or meaning"),
        words.size() == 1 ? suggestion(words.front(), names) : "give fewer words");
  return text;
}

}  // namespace reference
