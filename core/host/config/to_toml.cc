#include "config/to_toml.h"

#include <capstan/base/text.h>

#include <capstan/config/toml_values.h>

#include <algorithm>

#include "config/document.h"
#include "config/paths.h"

namespace capstan::config {
namespace {

// "strategy.fsdp", with each part quoted that is not a bare key in TOML.
std::string key_text(const std::string& dotted) {
  std::vector<std::string> parts;
  for (const auto& part : split(dotted, '.')) {
    const bool bare = !part.empty() && std::all_of(part.begin(), part.end(), [](unsigned char c) {
      return (std::isalnum(c) != 0 && c < 0x80) || c == '_' || c == '-';
    });
    parts.push_back(bare ? part : value_text(part));
  }
  return join(parts, ".");
}

std::string line(const std::string& key, const Value& value, const Origin& origin) {
  auto out = cat(key_text(key), " = ", value_text(value));
  if (origin.layer != Origin::Layer::default_value) {
    auto from = origin.text();
    // A comment ends at the line's end and holds no control character; a file name may have any.
    std::replace_if(
        from.begin(), from.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }, '?');
    out += "  # " + from;
  }
  return out + "\n";
}

Value absolute_value(const Resolved& option) {
  auto value = option.value;
  if (option.spec.is_path) make_absolute(value, option.origin);
  return value;
}

}  // namespace

std::string to_toml(const std::vector<ResolvedTable>& tables) {
  std::string out;
  for (const auto& table : tables) {
    out += cat(out.empty() ? "" : "\n", "[", key_text(table.path), "]\n");
    for (const auto& entry : table.host) out += line(entry.key, entry.value, entry.origin);
    for (const auto& option : table.options) {
      if (std::holds_alternative<std::monostate>(option.value)) continue;
      out += line(option.spec.key, absolute_value(option), option.origin);
    }
  }
  return out;
}

std::string toml_of_overrides(const std::vector<std::string>& overrides) {
  Diagnostics none;
  const auto document = load({}, overrides, none);
  std::string out;
  const auto add = [&](const Section& section) {
    if (section.entries.empty()) return;
    out += cat("\n[", key_text(section.path), "]\n");
    for (const auto& entry : section.entries) out += cat(key_text(entry.key), " = ", value_text(entry.value), "\n");
  };
  for (const auto& table : table_names()) add(document.section(table));
  for (const auto& group : group_names()) {
    for (const auto& section : document.children(group)) add(section);
  }
  return out;
}

}  // namespace capstan::config
