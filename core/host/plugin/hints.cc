#include "plugin/hints.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <utility>

namespace capstan::plugin {
namespace {

std::string last_part(const std::string& dotted) { return dotted.substr(dotted.rfind('.') + 1); }

// Exact letters first.
const Hint* find_key(const std::vector<Hint>& hints, const std::string& key, bool is_whole) {
  const Hint* near = nullptr;
  for (const auto& hint : hints) {
    if (hint.key == key) return &hint;
    // "rank" in a table does not mean the environment variable RANK.
    const bool is_other = hint.ours.empty() && !is_whole;
    if (!near && !is_other && lower(hint.key) == lower(key)) near = &hint;
  }
  return near;
}

// The only answer of the keys that are in a table there and end so; null where they differ, or there are none.
const Hint* find_last_part(const std::vector<Hint>& hints, const std::string& part) {
  const Hint* found = nullptr;
  for (const auto& hint : hints) {
    if (hint.key.find('.') == std::string::npos || last_part(lower(hint.key)) != part) continue;
    if (found && found->ours != hint.ours) return nullptr;
    if (!found) found = &hint;
  }
  return found;
}

std::string of_program(const Hint& hint) { return hint.program + (hint.program.ends_with("s") ? "'" : "'s"); }

// What is said of an option; empty: nothing, or what was typed itself.
std::string option_fix(const std::vector<Hint>& hints, const std::string& typed) {
  const auto* hint = find_hint(hints, typed);
  return hint && hint->ours != typed ? hint_text(*hint) : std::string();
}

std::string table_fix(const std::vector<Hint>& hints, const std::string& table) {
  const auto found =
      std::find_if(hints.begin(), hints.end(), [&](const auto& hint) { return hint.key.starts_with(table + "."); });
  if (table.empty() || found == hints.end()) return {};
  return cat("it is ", of_program(*found),
             found->document.empty() ? "" : cat("; ", found->document, " has what its keys are here"));
}

// Commands that have a table in configurations are known by their files' notes.
std::string command_table_fix(const Host& host, const std::string& table) {
  if (table.empty()) return {};
  std::vector<std::string> names;
  for (const auto& command : host.commands()) {
    if (host.has_table(command.name)) names.push_back(command.name);
  }
  const auto near = nearest_name(table, names);
  return near.empty() ? near : cat("did you mean [", near, "]?");
}

bool is_of_unknown(const Diagnostic& fault) { return !fault.unknown_option.empty() || !fault.unknown_table.empty(); }

void add_hinted(const Host& host, const std::vector<Hint>& hints, Diagnostic fault, std::vector<Diagnostic>& out) {
  auto fix = option_fix(hints, fault.unknown_option);
  if (fix.empty()) fix = table_fix(hints, fault.unknown_table);
  if (fix.empty() && !fault.fix.starts_with("did you mean")) fix = command_table_fix(host, fault.unknown_table);
  if (!fix.empty()) fault.fix = fix;
  auto inside = std::exchange(fault.inside, {});
  out.push_back(std::move(fault));
  for (auto& inner : inside) {
    inner.fix = option_fix(hints, inner.unknown_option);
    if (!inner.fix.empty()) out.push_back(inner);
  }
}

}  // namespace

const Hint* find_hint(const std::vector<Hint>& hints, const std::string& typed) {
  // As typed, then without the tables before it.
  for (auto rest = typed; !rest.empty();) {
    if (const auto* found = find_key(hints, rest, rest == typed)) return found;
    const auto dot = rest.find('.');
    rest = dot == std::string::npos ? "" : rest.substr(dot + 1);
  }
  return find_last_part(hints, last_part(lower(typed)));
}

std::string hint_text(const Hint& hint) {
  const auto from = cat(of_program(hint), " ", hint.key);
  if (hint.ours.empty()) return cat("not needed, ", from, ": ", hint.why);
  return cat("did you mean '", hint.ours, "'? (", from, hint.why.empty() ? "" : cat("; ", hint.why), ")");
}

Diagnostics flag_faults(const std::vector<std::string>& arguments, const std::vector<Hint>& hints) {
  Diagnostics faults;
  for (const auto& argument : arguments) {
    if (!argument.starts_with("--")) continue;
    const auto flag = argument.substr(0, argument.find('='));
    auto name = flag.substr(2);
    std::replace(name.begin(), name.end(), '-', '_');
    const auto* whole = find_hint(hints, flag);
    const auto* hint = whole ? whole : find_hint(hints, name);
    if (!hint) continue;
    faults.add("command line", cat("there is no flag ", flag, ": an option is set as table.option=value"),
               hint_text(*hint));
  }
  return faults;
}

Error with_hints(const Error& error, Host& host) {
  const auto& faults = error.diagnostics();
  if (std::none_of(faults.begin(), faults.end(), is_of_unknown)) return error;
  const auto hints = host.hints();
  std::vector<Diagnostic> out;
  for (const auto& fault : faults) add_hinted(host, hints, fault, out);
  Error completed(std::move(out));
  for (const auto& context : error.context()) completed.add_context(context);
  return completed;
}

}  // namespace capstan::plugin
