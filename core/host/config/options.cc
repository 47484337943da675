#include <capstan/base/text.h>
#include <capstan/config/options.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "config/nearest_choice.h"
#include "config/paths.h"
#include "config/plugin_table.h"

namespace capstan::config {
namespace {

std::string full_name(const Section& section, const std::string& key) {
  return section.path.empty() ? key : section.path + "." + key;
}

std::string place(const Origin& origin) {
  return origin.layer == Origin::Layer::default_value ? std::string() : origin.text();
}

bool means(const OptionSpec& spec, const std::string& key) {
  return spec.key == key || std::find(spec.spellings.begin(), spec.spellings.end(), key) != spec.spellings.end();
}

bool is_known(const Schema& schema, const Entry& entry) {
  return entry.origin.layer == Origin::Layer::model_file ||
         std::any_of(schema.begin(), schema.end(), [&](const auto& spec) { return means(spec, entry.key); });
}

// An option of an earlier version says so, unless it has the value that it had by default.
bool say_gone(const Schema& schema, const Section& section, const Entry& entry, Diagnostics& diagnostics) {
  const auto found =
      std::find_if(schema.gone.begin(), schema.gone.end(), [&](const auto& option) { return option.key == entry.key; });
  if (found == schema.gone.end()) return false;
  if (entry.value == found->was) return true;
  diagnostics.add(place(entry.origin), cat("there is no option ", full_name(section, entry.key), " any more"),
                  found->instead);
  return true;
}

// `more`: other keys that the table accepts.
void say_unknown(const Schema& schema, const Section& section, const std::vector<std::string>& more,
                 Diagnostics& diagnostics) {
  for (const auto& entry : section.entries) {
    if (is_known(schema, entry) || say_gone(schema, section, entry, diagnostics)) continue;
    auto keys = more;
    for (const auto& spec : schema) keys.push_back(spec.key);
    const auto name = full_name(section, entry.key);
    diagnostics.add(
        {place(entry.origin), "unknown option " + name,
         keys.empty() ? cat("remove it: [", section.path, "] takes no options") : suggestion(entry.key, keys), name});
  }
}

// The entry that decides this option: the one in the highest layer that has one. Null: it is not set.
const Entry* winner(const OptionSpec& spec, const Section& section, Diagnostics& diagnostics) {
  const Entry* best = nullptr;
  for (const auto& entry : section.entries) {
    if (!means(spec, entry.key) || std::holds_alternative<std::monostate>(entry.value)) continue;
    if (best && best->origin.layer == entry.origin.layer) {
      diagnostics.add(place(entry.origin),
                      cat(full_name(section, entry.key), " and ", full_name(section, best->key), " (",
                          best->origin.text(), ") are two spellings of one option"),
                      "keep one of them");
    } else if (!best || best->origin.layer < entry.origin.layer) {
      best = &entry;
    }
  }
  return best;
}

template <class T>
constexpr bool is_list = !std::is_same_v<T, std::string> && requires(T value) {
  value.front();
};

// The value as a Wanted: an integer is a number too, and an empty list is one of any type.
template <class Wanted>
std::optional<Value> as(const Value& value) {
  const auto converted = [](const auto& held) -> std::optional<Value> {
    using Held = std::decay_t<decltype(held)>;
    constexpr bool are_numbers = std::is_same_v<Held, std::int64_t> && std::is_same_v<Wanted, double>;
    if constexpr (std::is_same_v<Held, Wanted> || are_numbers) {
      return static_cast<Wanted>(held);
    } else if constexpr (is_list<Held> && is_list<Wanted>) {
      constexpr bool hold_numbers =
          std::is_same_v<Held, std::vector<std::int64_t>> && std::is_same_v<Wanted, std::vector<double>>;
      if constexpr (hold_numbers) return Wanted(held.begin(), held.end());
      if (held.empty()) return Wanted{};
    }
    return std::nullopt;
  };
  return std::visit(converted, value);
}

// A string option's value on the command line is taken as typed, even if it could be read as a number.
std::optional<Value> as_string(const Entry& entry) {
  const bool is_scalar = entry.value.index() < Value(std::string()).index();
  if (entry.origin.layer == Origin::Layer::command_line && is_scalar && !entry.text.empty()) return entry.text;
  return as<std::string>(entry.value);
}

std::optional<Value> convert(Type type, const Entry& entry) {
  switch (type) {
    case Type::boolean:
      return as<bool>(entry.value);
    case Type::integer:
      return as<std::int64_t>(entry.value);
    case Type::number:
      return as<double>(entry.value);
    case Type::string:
      return as_string(entry);
    case Type::integers:
      return as<std::vector<std::int64_t>>(entry.value);
    case Type::numbers:
      return as<std::vector<double>>(entry.value);
    case Type::strings:
      return as<std::vector<std::string>>(entry.value);
  }
  return std::nullopt;
}

// "an integer", "a list of strings".
std::string a_type(Type type) { return (type == Type::integer ? "an " : "a ") + type_text(type); }

Type type_of(const Value& value) { return static_cast<Type>(value.index() - 1); }

// Is it a single element of a list of this type?
bool is_element(Type list, const Entry& alone) {
  return (list == Type::strings && convert(Type::string, alone)) ||
         (list == Type::integers && convert(Type::integer, alone)) ||
         (list == Type::numbers && convert(Type::number, alone));
}

// How the value should be written, if that can be guessed.
std::string type_fix(const OptionSpec& spec, const Value& value) {
  const auto text = value_text(value);
  if (spec.type == Type::string && value.index() < Value(std::string()).index()) return cat("write \"", text, "\"");
  if (is_element(spec.type, {spec.key, value, {}})) return cat("write [", text, "]");
  if (const auto* number = std::get_if<double>(&value);
      number && spec.type == Type::integer && std::trunc(*number) == *number && std::abs(*number) < 1e15) {
    return cat("write ", static_cast<std::int64_t>(*number));
  }
  const bool has_default = !std::holds_alternative<std::monostate>(spec.default_value);
  const auto example = has_default ? value_text(spec.default_value) : "";
  return example.empty() || example == "\"\"" ? "" : cat("for example ", spec.key, " = ", example);
}

bool in_range(const OptionSpec& spec, double number) {
  if (!std::isfinite(number)) return false;
  if (spec.min && (spec.min_is_exclusive ? number <= *spec.min : number < *spec.min)) return false;
  return !spec.max || number <= *spec.max;
}

// The numbers in a value that ranges apply to.
std::vector<double> numbers_in(const Value& value) {
  if (const auto numbers = as<std::vector<double>>(value)) return std::get<std::vector<double>>(*numbers);
  if (const auto number = as<double>(value)) return {std::get<double>(*number)};
  return {};
}

std::vector<std::string> strings_in(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return {*text};
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) return *texts;
  return {};
}

// No count, size or number of steps is larger, and sums and products of smaller ones still fit into 64 bits. Options
// that mean something else have a limit of their own.
constexpr std::int64_t most_of_anything = 1'000'000'000'000'000;

// What a number must be; nothing when it is fine.
std::optional<std::string> number_fault(const OptionSpec& spec, double number) {
  const bool is_count = spec.type == Type::integer || spec.type == Type::integers;
  if (is_count && !spec.max && number > static_cast<double>(most_of_anything))
    return cat("must be at most ", most_of_anything);
  if (in_range(spec, number)) return std::nullopt;
  const auto limits = limits_text(spec);
  return "must be " + (std::isfinite(number) && !limits.empty() ? limits : "a finite number");
}

// Terminals and manifests show paths. An empty one would be the current folder; only where it is the default it means
// none.
std::string path_fault(const OptionSpec& spec, const std::string& text) {
  if (text.find('\0') != std::string::npos) return "must be a path, which has no zero byte";
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::any_of(text.begin(), text.end(), is_control)) return "must be a path without control characters";
  const auto* otherwise = std::get_if<std::string>(&spec.default_value);
  return text.empty() && !(otherwise && otherwise->empty()) ? "must be a path; write \".\" for the current folder" : "";
}

// What is wrong with a value of the right type: ("must be …", fix); nothing when it is fine.
std::optional<std::pair<std::string, std::string>> limit_fault(const OptionSpec& spec, const Value& value) {
  for (const double number : numbers_in(value)) {
    if (auto fault = number_fault(spec, number)) return std::pair(std::move(*fault), std::string());
  }
  for (const auto& text : spec.is_path ? strings_in(value) : std::vector<std::string>{}) {
    if (const auto fault = path_fault(spec, text); !fault.empty()) return std::pair(fault, std::string());
  }
  if (spec.choices.empty()) return std::nullopt;
  for (const auto& text : strings_in(value)) {
    if (std::find(spec.choices.begin(), spec.choices.end(), text) != spec.choices.end()) continue;
    const auto near = nearest_choice(text, spec.choices);
    return std::pair{"must be " + limits_text(spec), near.empty() ? near : "did you mean '" + near + "'?"};
  }
  return std::nullopt;
}

bool is_constant(const OptionSpec& spec) {
  return spec.choices.size() == 1 || (spec.min && spec.max && *spec.min == *spec.max);
}

Resolved resolve_one(const OptionSpec& spec, const Section& section, Diagnostics& diagnostics) {
  Resolved out{spec, spec.default_value, {}};
  const Entry* entry = winner(spec, section, diagnostics);
  if (!entry) {
    if (spec.required) {
      diagnostics.add(place(section.origin), cat(full_name(section, spec.key), " is not set, and it has no default"),
                      cat("add ", spec.key, " to [", section.path, "]: ", spec.doc));
    }
    return out;
  }
  const auto said = cat(full_name(section, entry->key), " is ", value_text(entry->value));
  auto value = convert(spec.type, *entry);
  if (!value) {
    diagnostics.add(place(entry->origin),
                    cat(said, " (", a_type(type_of(entry->value)), "), but must be ",
                        spec.type == Type::boolean ? "true or false" : a_type(spec.type)),
                    type_fix(spec, entry->value));
    return out;
  }
  if (auto fault = limit_fault(spec, *value)) {
    // A model's own file describes the model: changing a value there would not change the model.
    if (entry->origin.layer == Origin::Layer::model_file && (!spec.choices.empty() || is_constant(spec))) {
      fault->second = cat("such models are not supported; ", full_name(section, spec.key),
                          " in the configuration wins over the file");
    }
    diagnostics.add(place(entry->origin), cat(said, ", but ", fault->first), fault->second);
    return out;
  }
  if (spec.is_path) make_absolute(*value, entry->origin);
  out.value = std::move(*value);
  out.origin = entry->origin;
  return out;
}

std::string bound_text(double bound) {
  return std::trunc(bound) == bound && std::abs(bound) < 1e15 ? std::to_string(static_cast<std::int64_t>(bound))
                                                              : number_text(bound);
}

}  // namespace

std::string type_text(Type type) {
  static constexpr std::array names{"boolean",          "integer",         "number",         "string",
                                    "list of integers", "list of numbers", "list of strings"};
  return names.at(static_cast<std::size_t>(type));
}

std::vector<OptionSpec> listed(const Schema& schema) {
  std::vector<OptionSpec> out;
  std::copy_if(schema.begin(), schema.end(), std::back_inserter(out),
               [](const auto& one) { return !is_constant(one); });
  return out;
}

std::string type_text(const OptionSpec& spec) { return type_text(spec.type) + (spec.is_path ? ", path" : ""); }

std::string default_text(const OptionSpec& spec) {
  if (spec.required) return "required";
  return std::holds_alternative<std::monostate>(spec.default_value) ? "not set" : value_text(spec.default_value);
}

std::string limits_text(const OptionSpec& spec) {
  if (!spec.choices.empty()) {
    std::vector<std::string> quoted;
    quoted.reserve(spec.choices.size());
    for (const auto& choice : spec.choices) quoted.push_back(value_text(choice));
    return "one of " + join(quoted);
  }
  auto most = spec.max ? bound_text(*spec.max) : std::string();
  if (is_constant(spec)) return most;
  if (spec.min && spec.max && !spec.min_is_exclusive) return cat("between ", bound_text(*spec.min), " and ", most);
  std::string out;
  if (spec.min) out = cat(spec.min_is_exclusive ? "above " : "at least ", bound_text(*spec.min));
  if (spec.max) out += cat(out.empty() ? "" : " and ", "at most ", most);
  return out;
}

void refuse_unknown(Section& section, const Schema& schema, const std::vector<std::string>& more,
                    Diagnostics& diagnostics) {
  say_unknown(schema, section, more, diagnostics);
  std::erase_if(section.entries, [&](const auto& entry) { return !is_known(schema, entry); });
}

std::vector<Resolved> resolve(const Schema& schema, const Section& section, Diagnostics& diagnostics) {
  say_unknown(schema, section, {}, diagnostics);
  std::vector<Resolved> out;
  out.reserve(schema.size());
  for (const auto& spec : schema) out.push_back(resolve_one(spec, section, diagnostics));
  return out;
}

}  // namespace capstan::config
