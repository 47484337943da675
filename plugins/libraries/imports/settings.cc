#include "settings.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <utility>

namespace imports {

using namespace capstan;

namespace {

bool is_comment(const Setting& setting) { return std::holds_alternative<std::monostate>(setting.value); }

std::string table_of(const std::string& ours) { return ours.substr(0, ours.rfind('.')); }

}  // namespace

const Setting* Settings::set(const std::string& ours, Setting setting) {
  const auto found = settings_.find(ours);
  if (found == settings_.end()) {
    settings_.emplace(ours, std::move(setting));
    order_.push_back(ours);
    return nullptr;
  }
  auto& old = found->second;
  if (old.value == setting.value || is_comment(setting)) return nullptr;
  if (!is_comment(old)) return &old;
  old = std::move(setting);
  return nullptr;
}

void Settings::set_default(const std::string& ours, config::Value value, const std::string& from) {
  if (!settings_.contains(ours)) set(ours, {std::move(value), from});
}

void Settings::replace(const std::string& ours, Setting setting) {
  const auto found = settings_.find(ours);
  if (found != settings_.end()) found->second = std::move(setting);
}

std::optional<Setting> Settings::drop(const std::string& ours) {
  const auto found = settings_.find(ours);
  if (found == settings_.end()) return {};
  auto out = std::move(found->second);
  order_.erase(std::find(order_.begin(), order_.end(), ours));
  settings_.erase(found);
  return out;
}

const Setting* Settings::find(const std::string& ours) const {
  const auto found = settings_.find(ours);
  return found == settings_.end() ? nullptr : &found->second;
}

std::vector<std::string> Settings::tables() const {
  std::vector<std::string> out;
  for (const auto& ours : order_) {
    if (std::find(out.begin(), out.end(), table_of(ours)) == out.end()) out.push_back(table_of(ours));
  }
  return out;
}

bool Settings::is_open(const std::string& table) const {
  return std::all_of(settings_.begin(), settings_.end(),
                     [&](const auto& one) { return table_of(one.first) != table || is_comment(one.second); });
}

std::string Settings::table_text(const std::string& table, const std::string& head) const {
  std::string plugin, others;
  for (const auto& ours : order_) {
    if (table_of(ours) != table) continue;
    const auto& setting = settings_.at(ours);
    const auto key = ours.substr(ours.rfind('.') + 1);
    auto& out = key == "plugin" ? plugin : others;
    out += is_comment(setting)
               ? cat("# ", key, in_comment(setting.comment), "\n")
               : cat(key, " = ", config::value_text(setting.value), "  # ", in_comment(setting.from), "\n");
  }
  return cat("\n", head, "\n", plugin, others);
}

std::string Settings::notes_text() const {
  std::string out = notes_.empty() ? "" : "\n";
  for (const auto& note : notes_) out += "# " + in_comment(note) + "\n";
  return out;
}

std::string in_comment(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }, '?');
  return text;
}

std::string unknown_fix(const std::string& name, const std::vector<std::string>& known) {
  const auto near = nearest_name(name, known);
  return near.empty() ? "remove it if it does not change the training" : cat("did you mean '", near, "'?");
}

}  // namespace imports
