#include "translate.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <array>
#include <utility>

#include "parts.h"

namespace import_axolotl {

using namespace capstan;

namespace {

// Tables in the order in which a configuration is read; the others follow as they came.
std::vector<std::string> in_order(std::vector<std::string> tables) {
  static const std::array<const char*, 9> order{"run",       "model",     "data",       "data.sources", "train",
                                                "optimizer", "objective", "checkpoint", "strategy"};
  const auto place = [&](const std::string& table) {
    for (std::size_t i = order.size(); i > 0; --i) {
      const std::string name = order.at(i - 1);
      if (table == name || table.starts_with(name + ".")) return i - 1;
    }
    return order.size();
  };
  std::stable_sort(tables.begin(), tables.end(),
                   [&](const auto& one, const auto& other) { return place(one) < place(other); });
  return tables;
}

std::string head_of(const std::string& table, bool is_open) {
  if (table.starts_with("data.sources.")) return "[[data.sources]]";
  // A plugin's table alone turns it on.
  const bool is_a_plugin = table.starts_with("strategy.") || table.starts_with("monitor.");
  return cat(is_open && is_a_plugin ? "# [" : "[", table, "]");
}

}  // namespace

Translated translate(File file, const Surroundings& around) {
  Import import(std::move(file), around);
  import.judge();
  for (auto* take : {take_model, take_adapter, take_training, take_optimizer, take_schedule, take_strategies,
                     take_objective, take_data, take_run, take_monitors})
    take(import);
  import.faults().throw_if_any();
  const auto& settings = import.settings();
  Translated out;
  out.toml = cat("# From ", imports::in_comment(import.file().name),
                 ", an axolotl configuration. Lines with \"choose\" are left to you.\n");
  for (const auto& table : in_order(settings.tables()))
    out.toml += settings.table_text(table, head_of(table, settings.is_open(table)));
  out.toml += settings.notes_text();
  out.choices = import.choices();
  out.notes = settings.notes();
  return out;
}

}  // namespace import_axolotl
