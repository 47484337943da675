#include "config/document.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <utility>

#include "config/layers.h"

namespace capstan::config {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// "a.b" lies in "a".
bool lies_in(const std::string& key, const std::string& table) { return key.starts_with(table + "."); }

bool comes_before(const Section& a, const Section& b) { return a.path < b.path; }

// Puts items into sections, later ones over earlier ones.
class Merger {
 public:
  Merger(const std::vector<Item>& items, Diagnostics& diagnostics, IsCommand is_command = {})
      : items_(items), diagnostics_(diagnostics), is_command_(std::move(is_command)) {
    for (const auto& item : items) merge(item);
  }

  std::vector<Section> sections;

 private:
  void merge(const Item& item) {
    const auto& top = item.path[0];
    const bool is_group = contains(group_names(), top);
    if (!is_group && !is_table(top)) return refuse_top(item);
    const std::size_t depth = is_group ? 2 : 1;  // keys that name the section
    if (item.path.size() <= depth && item.value) return refuse_value(item, depth);
    if (item.path.size() < depth) return;
    if (is_unset(item)) return unset(item, depth);
    Section& section = this->section(item, depth);
    if (item.path.size() == depth) {
      section.origin = item.origin;
    } else if (item.value) {
      set(section, item, depth);
    } else if (item.is_empty_table) {
      diagnostics_.add(item.origin.text(), cat("[", join(item.path, "."), "] is empty"),
                       "remove it, or set an option in it");
    }
  }

  bool is_table(const std::string& name) const {
    return contains(table_names(), name) || (is_command_ && is_command_(name));
  }

  // Its children are skipped: one diagnostic covers all of them.
  void refuse_top(const Item& item) {
    const auto& top = item.path[0];
    const bool is_override = item.origin.layer == Origin::Layer::command_line;
    if (item.path.size() > 1 && !is_override) return;
    const auto option = item.value ? join(item.path, ".") : std::string();
    if (item.value && !is_override) {
      diagnostics_.add({item.origin.text(), cat(top, " stands outside of any table"),
                        "put it under its table: [train], [optimizer], …; only extends stands outside", option});
      return;
    }
    auto names = table_names();
    names.insert(names.end(), group_names().begin(), group_names().end());
    diagnostics_.add({item.origin.text(),
                      cat("unknown table [", top, "]", is_override ? " in " + join(item.path, ".") : std::string()),
                      unknown_table_fix(top, names), option, top, options_in(item)});
  }

  // A file's options in this table.
  std::vector<Diagnostic> options_in(const Item& table) const {
    std::vector<Diagnostic> out;
    for (const auto& item : items_) {
      const bool is_inside = item.path.size() > 1 && item.path[0] == table.path[0] &&
                             item.origin.layer == table.origin.layer && item.origin.file == table.origin.file;
      if (!is_inside || !item.value || table.path.size() > 1) continue;
      const auto name = join(item.path, ".");
      out.push_back({item.origin.text(), "unknown option " + name, {}, name});
    }
    return out;
  }

  // Core knows no plugin by name: a name that is like no table may be a plugin.
  static std::string unknown_table_fix(const std::string& top, const std::vector<std::string>& names) {
    auto near = suggestion(top, names);
    if (!nearest_name(top, names).empty()) return near;
    return cat(near, "; a strategy's table is written [strategy.", top, "], a monitor's [monitor.", top, "]");
  }

  void refuse_value(const Item& item, std::size_t depth) {
    const auto name = join(item.path, ".");
    diagnostics_.add(item.origin.text(), cat(name, " is ", value_text(*item.value), ", but must be a table"),
                     cat("write [", item.path.size() < depth ? name + ".<plugin>" : name, "] and its options below"));
  }

  // "train.accumulation=" on the command line; an empty text is written "".
  static bool is_unset(const Item& item) {
    return item.origin.layer == Origin::Layer::command_line && item.text.empty() && item.value == Value(std::string());
  }

  // What was said of the option is gone, and its default holds.
  void unset(const Item& item, std::size_t depth) {
    std::size_t gone = 0;
    for (auto& section : sections) {
      if (section.path != section_path(item, depth)) continue;
      const auto key = key_of(item, depth);
      gone += std::erase_if(section.entries, [&](const Entry& old) { return old.key == key || lies_in(old.key, key); });
    }
    const auto name = join(item.path, ".");
    if (gone == 0) {
      diagnostics_.add(item.origin.text(), cat(name, "= unsets an option that nothing sets"),
                       cat("leave it out; an empty text is ", name, "='\"\"'"));
    }
  }

  static std::string section_path(const Item& item, std::size_t depth) {
    return join({item.path.begin(), item.path.begin() + static_cast<std::ptrdiff_t>(depth)}, ".");
  }
  static std::string key_of(const Item& item, std::size_t depth) {
    return join({item.path.begin() + static_cast<std::ptrdiff_t>(depth), item.path.end()}, ".");
  }

  Section& section(const Item& item, std::size_t depth) {
    const auto path = section_path(item, depth);
    for (auto& section : sections) {
      if (section.path == path) return section;
    }
    return sections.emplace_back(Section{path, item.origin, {}});
  }

  // Later layers win: a value replaces a table of that name, and a table a value.
  static void set(Section& section, const Item& item, std::size_t depth) {
    const auto key = key_of(item, depth);
    std::erase_if(section.entries,
                  [&](const Entry& old) { return old.key == key || lies_in(old.key, key) || lies_in(key, old.key); });
    section.entries.push_back({key, *item.value, item.origin, item.text});
  }

  const std::vector<Item>& items_;
  Diagnostics& diagnostics_;
  IsCommand is_command_;
};

}  // namespace

const std::vector<std::string>& table_names() {
  static const std::vector<std::string> names{"run",       "model",     "data", "tokenizer", "train",
                                              "optimizer", "objective", "comm", "checkpoint"};
  return names;
}

const std::vector<std::string>& group_names() {
  static const std::vector<std::string> names{"strategy", "monitor"};
  return names;
}

Section Document::section(const std::string& table) const {
  CAPSTAN_ASSERT(contains(table_names(), table));
  for (const auto& section : sections_) {
    if (section.path == table) return section;
  }
  return {table, {Origin::Layer::file, file_, 0}, {}};
}

std::vector<Section> Document::children(const std::string& group) const {
  CAPSTAN_ASSERT(contains(group_names(), group));
  std::vector<Section> out;
  for (const auto& section : sections_) {
    if (lies_in(section.path, group)) out.push_back(section);
  }
  std::sort(out.begin(), out.end(), comes_before);
  return out;
}

std::vector<Section> Document::of_commands() const {
  std::vector<Section> out;
  for (const auto& section : sections_) {
    const bool is_grouped = section.path.find('.') != std::string::npos;
    if (!is_grouped && !contains(table_names(), section.path)) out.push_back(section);
  }
  std::sort(out.begin(), out.end(), comes_before);
  return out;
}

Document parse(const std::string& text, const std::string& name, Diagnostics& diagnostics) {
  const auto items = parse_toml(text, name, diagnostics);
  Merger merger(items, diagnostics);
  return {name, std::move(merger.sections)};
}

Document load(const std::filesystem::path& file, const std::vector<std::string>& overrides, Diagnostics& diagnostics,
              const IsCommand& is_command, const std::vector<Item>& settled) {
  std::vector<Item> items;
  try {
    if (!file.empty()) items = read_layers(file.string(), diagnostics);
  } catch (const Error& error) {
    for (const auto& diagnostic : error.diagnostics()) diagnostics.add(diagnostic);
    diagnostics.throw_if_any();
  }
  for (const auto& text : overrides) {
    auto more = read_override(text, diagnostics);
    items.insert(items.end(), more.begin(), more.end());
  }
  items.insert(items.end(), settled.begin(), settled.end());
  Merger merger(items, diagnostics, is_command);
  return {file.string(), std::move(merger.sections)};
}

}  // namespace capstan::config
