#include "config/toml_reader.h"

#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>
#include <capstan/config/toml_values.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

namespace capstan::config {
namespace {

constexpr std::size_t most_parts = 64;      // in a key
constexpr std::size_t most_options = 5000;  // in a file
constexpr const char* override_form = "write it as table.option=value, for example train.max_steps=250";

template <class T>
std::vector<T> list_of(const toml::array& array) {
  std::vector<T> out;
  out.reserve(array.size());
  for (const auto& node : array) out.push_back(*node.value<T>());
  return out;
}

bool all_of(const toml::array& array, bool (*test)(const toml::node&)) {
  return std::all_of(array.begin(), array.end(), test);
}

std::optional<Value> list_value(const toml::array& array) {
  if (array.empty()) return std::vector<std::int64_t>{};
  if (array.is_homogeneous<std::int64_t>()) return list_of<std::int64_t>(array);
  if (all_of(array, [](const toml::node& node) { return node.is_number(); })) return list_of<double>(array);
  if (array.is_homogeneous<std::string>()) return list_of<std::string>(array);
  return std::nullopt;
}

std::optional<Value> value_of(const toml::node& node) {
  if (const auto* flag = node.as_boolean()) return flag->get();
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* array = node.as_array()) return list_value(*array);
  return std::nullopt;
}

// Why no option can have this value.
std::string refusal(const toml::node& node) {
  const auto* array = node.as_array();
  if (!array) return "is a date or a time, and no option takes one; a string stands in quotes";
  if (array->is_array_of_tables()) return "is a list of tables; give each table a name: [table.name]";
  if (array->is_homogeneous<toml::array>()) return "is a list of lists; options take lists of numbers or strings";
  if (array->is_homogeneous<bool>()) return "is a list of booleans; options take lists of numbers or strings";
  return "mixes types; a list holds only integers, only numbers or only strings";
}

// Walks a table in the order of the file.
class Walker {
 public:
  Walker(Origin origin, std::vector<std::string> path, Diagnostics& diagnostics)
      : origin_(std::move(origin)), path_(std::move(path)), diagnostics_(diagnostics) {}

  void walk(const toml::table& table) {
    std::vector<std::pair<const toml::key*, const toml::node*>> children;
    children.reserve(table.size());
    for (auto&& [key, node] : table) children.emplace_back(&key, &node);
    std::stable_sort(children.begin(), children.end(),
                     [](const auto& a, const auto& b) { return a.first->source().begin < b.first->source().begin; });
    for (const auto& [key, node] : children) {
      path_.emplace_back(key->str());
      if (origin_.layer == Origin::Layer::file) origin_.line = static_cast<int>(key->source().begin.line);
      visit(*node);
      path_.pop_back();
    }
  }

  // The node at the path.
  void visit(const toml::node& node) {
    if (const auto* table = node.as_table()) {
      items.push_back({path_, std::nullopt, table->empty(), origin_});
      walk(*table);
    } else if (const auto* array = node.as_array(); array && array->is_array_of_tables() && may_be_listed()) {
      for (std::size_t i = 0; i < array->size(); ++i) {
        path_.push_back(std::to_string(i + 1));
        visit(*array->get(i));
        path_.pop_back();
      }
    } else if (auto value = value_of(node)) {
      items.push_back({path_, std::move(value), false, origin_});
    } else {
      const std::string said = refusal(node);  // "what; fix"
      const auto fix = said.find("; ");
      diagnostics_.add(origin_.text(), cat(join(path_, "."), " ", said.substr(0, fix)), said.substr(fix + 2));
    }
  }

  std::vector<Item> items;

 private:
  // [[optimizer.groups]] is [optimizer.groups.1] and so on; every table that is not of a list has a name.
  bool may_be_listed() const {
    const auto path = join(path_, ".");
    return path == "optimizer.groups" || path == "data.sources";
  }

  Origin origin_;
  std::vector<std::string> path_;
  Diagnostics& diagnostics_;
};

// A file of the same folder with a similar name.
std::string nearest_file(const std::filesystem::path& file) {
  std::vector<std::string> names;
  std::error_code ignored;
  const auto folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".toml") names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  const auto near = nearest_name(file.filename().string(), names);
  return near.empty() ? near : "did you mean '" + (file.parent_path() / near).string() + "'?";
}

// toml++: "Error while parsing string: encountered end-of-file", and a name of its own in parentheses after a limit.
std::string words_of(const toml::parse_error& error) {
  std::string_view text = error.description();
  constexpr std::string_view begin = "Error while parsing ";
  const bool is_part = text.starts_with(begin);
  if (is_part) text.remove_prefix(begin.size());
  if (const auto own = text.find(" (TOML_"); own != std::string_view::npos) text = text.substr(0, own);
  if (!is_part) return printable(text);
  const bool has_vowel = !text.empty() && std::string_view("aeiou").find(text[0]) != std::string_view::npos;
  return cat(has_vowel ? "in an " : "in a ", printable(text));
}

// What an override's value means, as a document `v = value`; nothing: it is a plain string.
std::optional<toml::table> parse_value(const std::string& text, Diagnostics& diagnostics) {
  try {
    auto table = toml::parse("v = " + text);
    if (table.size() == 1) return table;
  } catch (const toml::parse_error& error) {
    if (!text.empty() && std::string_view("[{\"'").find(text[0]) != std::string_view::npos) {
      diagnostics.add("command line", cat(text, " is not a TOML value: ", words_of(error)),
                      "close the bracket or quote; the shell may have eaten quotes: put '…' around the whole override");
    }
  }
  return std::nullopt;
}

// White space is the value's own, such as a template's last line break, but "train.lr = 1e-4" is written as in a file.
std::string typed_value(const std::string& text, std::size_t equals) {
  auto value = text.substr(equals + 1);
  if (equals > 0 && text[equals - 1] == ' ') value.erase(0, value.find_first_not_of(' '));
  return trim(value).empty() ? "" : value;
}

// Parts of the longest dotted key. The parser makes a table in a table of each part, as deep as a stack is not.
std::size_t longest_key(std::string_view text) {
  std::size_t longest = 0;
  std::size_t parts = 1;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) {
      if (c == quote || c == '\n') quote = 0;
      continue;
    }
    if (c == '"' || c == '\'') quote = c;
    const bool is_of_key = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                           std::string_view("_-\"' \t.").find(c) != std::string_view::npos;
    parts = is_of_key ? parts + (c == '.' ? 1 : 0) : 1;
    longest = std::max(longest, parts);
  }
  return longest;
}

void refuse_long_keys(const std::string& content, const std::string& file) {
  if (longest_key(content) <= most_parts) return;
  std::size_t line = 0;
  for (std::size_t begin = 0; begin < content.size(); ++line) {
    const auto end = std::min(content.find('\n', begin), content.size());
    if (longest_key(std::string_view(content).substr(begin, end - begin)) > most_parts) break;
    begin = end + 1;
  }
  throw Error(cat("a key of more than ", most_parts, " parts"), "an option is table.option, or table.plugin.option",
              cat(file, ":", line + 1));
}

}  // namespace

std::vector<Item> read_toml(const std::string& file, Diagnostics& diagnostics) {
  if (!is_there(file)) throw Error("the file does not exist", nearest_file(file), file);
  return parse_toml(read_file(file), file, diagnostics);
}

std::map<std::string, Value> toml_values(const std::string& file) {
  Diagnostics diagnostics;
  std::map<std::string, Value> values;
  for (const auto& item : read_toml(file, diagnostics)) {
    if (item.value) values[join(item.path, ".")] = *item.value;
  }
  diagnostics.throw_if_any();
  return values;
}

std::vector<Item> parse_toml(const std::string& content, const std::string& file, Diagnostics& diagnostics) {
  refuse_long_keys(content, file);
  try {
    const auto table = toml::parse(content, file);
    Walker walker({Origin::Layer::file, file, 0}, {}, diagnostics);
    walker.walk(table);
    if (walker.items.size() > most_options) {
      throw Error(cat("it has ", walker.items.size(), " keys, more than any configuration needs"),
                  "keep only the options", file);
    }
    return std::move(walker.items);
  } catch (const toml::parse_error& error) {
    throw Error(cat("not valid TOML: ", words_of(error)),
                "a table is [name], an option is name = value, and texts stand in quotes",
                cat(file, ":", error.source().begin.line));
  }
}

std::vector<Item> read_override(const std::string& text, Diagnostics& diagnostics) {
  const auto equals = text.find('=');
  if (equals == std::string::npos) {
    diagnostics.add("command line", cat("'", text, "' is no override: it has no '='"), override_form);
    return {};
  }
  Item item;
  for (const auto& part : split(trim(text.substr(0, equals)), '.')) item.path.push_back(trim(part));
  if (item.path.size() > most_parts || longest_key(text) > most_parts) {
    diagnostics.add("command line", cat("a key of more than ", most_parts, " parts"), override_form);
    return {};
  }
  const auto empty = std::find(item.path.begin(), item.path.end(), "");
  if (item.path.size() < 2 || empty != item.path.end()) {
    const auto alone = item.path.size() == 1 ? item.path[0] : std::string();
    diagnostics.add({"command line", cat("'", text, "' names no option of a table"), override_form, alone});
    return {};
  }
  item.origin.layer = Origin::Layer::command_line;
  item.text = typed_value(text, equals);
  const auto faults = diagnostics.size();
  const auto table = parse_value(item.text, diagnostics);
  if (!table) {
    item.value = item.text;
    return diagnostics.size() == faults ? std::vector<Item>{item} : std::vector<Item>{};
  }
  Walker walker(item.origin, item.path, diagnostics);
  walker.visit(*table->get("v"));
  if (walker.items.size() == 1) walker.items.front().text = item.text;
  return std::move(walker.items);
}

}  // namespace capstan::config
