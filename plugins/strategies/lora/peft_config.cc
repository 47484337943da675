#include "peft_config.h"

#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <type_traits>

#include "names.h"

namespace lora {

using namespace capstan;

namespace {

// What peft writes where a feature is off.
bool is_off(const Json& value) { return value.is_null() || value == false || (value.is_structured() && value.empty()); }

// Newer versions of peft write keys of features that are off.
void drop_unknown_that_are_off(Json& json, const config::FileKeys& table) {
  for (auto item = json.begin(); item != json.end();)
    item = is_off(*item) && !table.find(item.key()) ? json.erase(item) : std::next(item);
}

// Values by their kinds; one that is null counts as absent.
class Reader {
 public:
  Reader(const Json& json, const std::string& path, Diagnostics& faults) : json_(json), path_(path), faults_(faults) {}

  void number(const char* key, double& out) const {
    const auto value = at(key);
    if (value.is_number()) {
      out = value.get<double>();
    } else if (!value.is_null()) {
      fault(key, "a number");
    }
  }
  bool flag(const char* key) const {
    const auto value = at(key);
    if (!value.is_null() && !value.is_boolean()) fault(key, "true or false");
    return value == true;
  }
  template <class T>
  std::vector<T> list(const char* key, const char* expected) const {
    auto value = at(key);
    if (value.is_null()) return {};
    if (!value.is_structured()) value = Json::array({value});
    const auto fits = [](const Json& item) {
      return std::is_same_v<T, std::string> ? item.is_string() : item.is_number_integer();
    };
    if (value.is_array() && std::all_of(value.begin(), value.end(), fits)) return value.template get<std::vector<T>>();
    fault(key, expected);
    return {};
  }
  std::optional<std::regex> expression(const char* key, const std::string& text) const {
    try {
      return std::regex(text);
    } catch (const std::regex_error&) {
      faults_.add(path_, cat("its ", key, " is ", Json(text).dump(), ", a regular expression that Capstan cannot read"),
                  "write the names that it means instead, as a list");
      return {};
    }
  }
  PeftSelection selection(const char* key) const {
    const auto value = at(key);
    if (value.is_string()) return {{}, expression(key, value.get<std::string>())};
    return {list<std::string>(key, "a text or a list of texts"), {}};
  }
  Json at(const char* key) const { return json_.value(key, Json()); }
  void fault(const char* key, const char* expected) const {
    faults_.add(path_, cat("its ", key, " is ", at(key).dump(), ", expected ", expected),
                "copy or download the adapter again");
  }

 private:
  const Json& json_;
  const std::string& path_;
  Diagnostics& faults_;
};

constexpr const char* all_linear_word = "all-linear";

void read_modules(const Reader& reader, PeftConfig& config, Diagnostics& faults) {
  config.all_linear = reader.at("target_modules") == all_linear_word;
  if (!config.all_linear) config.targets = reader.selection("target_modules");
  config.excluded = reader.selection("exclude_modules");
  config.layers = reader.list<std::int64_t>("layers_to_transform", "a number or a list of numbers");
  for (const auto& pattern : reader.list<std::string>("layers_pattern", "a text or a list of texts")) {
    if (auto one = reader.expression("layers_pattern", cat("(?:^|.*?\\.)", pattern, "\\.(\\d+)\\.")))
      config.layer_numbers.push_back(std::move(*one));
  }
  // peft's own: the number of the first part of a name that is one.
  if (config.layer_numbers.empty()) config.layer_numbers.emplace_back(R"(.*?\.[^.]*\.(\d+)\.)");
  config.modules_to_save = reader.list<std::string>("modules_to_save", "a list of texts");
  if (reader.at("modules_to_save").is_string()) reader.fault("modules_to_save", "a list of texts");
  if (reader.at("peft_type").is_null()) {
    faults.add(config.path, "it has no peft_type, which peft needs",
               R"(add "peft_type": "LORA" if that is what it is)");
  }
  config.parameters.names = reader.list<std::string>("target_parameters", "a list of texts");
  if (reader.at("target_modules").is_null() && config.parameters.names.empty()) {
    faults.add(config.path, "it has no target_modules, which peft then takes from a list of families",
               "write the names of the modules with adapters there: \"target_modules\": [\"q_proj\", …]");
  }
}

// The number of a module's layer, as its name has it; empty: none is found.
std::string layer_of(const std::string& module, const std::vector<std::regex>& numbers) {
  std::smatch match;
  for (const auto& number : numbers) {
    if (std::regex_search(module, match, number, std::regex_constants::match_continuous))
      return match[match.size() - 1].str();
  }
  return {};
}

}  // namespace

bool PeftSelection::has(const std::string& module) const {
  if (pattern) return std::regex_match(module, *pattern);
  return std::any_of(names.begin(), names.end(), [&](const auto& name) { return names_module(name, module); });
}

PeftConfig PeftConfig::read(const std::filesystem::path& file, Diagnostics& faults) {
  PeftConfig config;
  config.path = file.string();
  auto json = try_parse_json(read_file(config.path));
  if (!json.is_object()) {
    faults.add(config.path, "it is not a JSON object", "copy or download the adapter again");
    return config;
  }
  const auto table = peft_keys();
  drop_unknown_that_are_off(json, table);
  config::judge_keys(table, json.dump(), config.path, faults);
  const Reader reader(json, config.path, faults);
  reader.number("r", config.rank);
  reader.number("lora_alpha", config.alpha);
  config.rank_stabilised = reader.flag("use_rslora");
  (void)reader.flag("ensure_weight_tying");
  read_modules(reader, config, faults);
  return config;
}

void PeftConfig::compare(const nn::Adapter& adapter, Diagnostics& faults) const {
  const auto judge = [&](const char* key, const auto& theirs, const char* option, const auto& mine) {
    if (theirs == mine) return;
    const auto text = [](const auto& value) {
      if constexpr (std::is_same_v<std::decay_t<decltype(value)>, bool>)
        return value ? "true" : "false";
      else
        return number_text(value);
    };
    faults.add(path, cat("its ", key, " is ", text(theirs), ", ", adapter.table, ".", option, " is ", text(mine)),
               cat("set ", adapter.table, ".", option, " = ", text(theirs)));
  };
  judge("rank r", rank, "rank", static_cast<double>(adapter.rank));
  judge("lora_alpha", alpha, "alpha", adapter.alpha);
  judge("use_rslora", rank_stabilised, "rank_stabilised", adapter.rank_stabilised);
}

bool PeftConfig::adapts(const std::string& module) const {
  if (excluded.has(module)) return false;
  const auto is_inside = [&](const auto& saved) {
    return cat(".", module, ".").find(cat(".", saved, ".")) != std::string::npos;
  };
  if (std::any_of(modules_to_save.begin(), modules_to_save.end(), is_inside)) return false;
  if (all_linear) return leaf(module) != "lm_head";
  if (!targets.has(module)) return false;
  const bool is_whole_name = std::find(targets.names.begin(), targets.names.end(), module) != targets.names.end();
  if (layers.empty() || targets.pattern || is_whole_name) return true;
  const auto layer = layer_of(module, layer_numbers);
  return std::any_of(layers.begin(), layers.end(), [&](const auto each) { return std::to_string(each) == layer; });
}

bool PeftConfig::saves(const std::string& module) const {
  // By the end of the text: "norm" means every module whose name ends so, "input_layernorm" too.
  return std::any_of(modules_to_save.begin(), modules_to_save.end(),
                     [&](const auto& saved) { return module.ends_with(saved); });
}

}  // namespace lora
