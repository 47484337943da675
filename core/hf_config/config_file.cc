#include "hf/config_file.h"

#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/paths.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <utility>

#include "hf/family.h"
#include "hf/json_keys.h"
#include "hf/layer_config.h"
#include "hf/quantization.h"
#include "hf/rope_tables.h"
#include "hf/wrapper.h"

namespace capstan::hf {
namespace {

using config::FileKey;
using config::FileKeys;

// A list with something else in it is given as text, which no option that wants a list takes.
template <class M>
config::Value list_of(const Json& json, bool (Json::*is_one)() const noexcept) {
  if (!std::all_of(json.begin(), json.end(), [&](const Json& item) { return (item.*is_one)(); })) return json.dump();
  return json.get<std::vector<M>>();
}

config::Value value_of(const Json& json, config::Type wanted) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_null()) return {};
  if (!json.is_array()) return json.dump();  // as text, which no option that is no text takes
  if (wanted == config::Type::integers) return list_of<std::int64_t>(json, &Json::is_number_integer);
  if (wanted == config::Type::numbers) return list_of<double>(json, &Json::is_number);
  if (wanted == config::Type::strings) return list_of<std::string>(json, &Json::is_string);
  return json.dump();
}

bool has(const config::Section& section, const config::OptionSpec& spec) {
  const auto names = names_of(spec);
  return std::any_of(names.begin(), names.end(), [&](const auto& name) { return section.find(name) != nullptr; });
}

bool is_optional(const config::OptionSpec& spec) { return std::holds_alternative<std::monostate>(spec.default_value); }

std::string short_text(const Json& value) {
  constexpr std::size_t longest = 60;
  auto text = value.dump();
  return printable(text.size() > longest ? text.substr(0, longest) + " …" : text);
}

// What transformers writes next to the options that Capstan has, and that changes nothing when it has this value.
constexpr std::array<std::pair<const char*, const char*>, 3> neutral_in_tables{
    {{"partial_rotary_factor", "1"}, {"factor", "1"}, {"truncate", "true"}}};

constexpr const char* tied_key = "tie_word_embeddings";

// Reads one config.json for one plugin.
class Reader {
 public:
  Reader(config::Section section, const plugin::Registration& registration, std::string file)
      : file_(std::move(file)),
        folder_(std::filesystem::path(file_).parent_path().string()),
        whole_(parse_config(read_file(file_), file_)),
        json_(text_part(whole_)),
        where_(is_wrapper(whole_) ? cat(file_, ": ", text_table) : file_),
        registration_(registration),
        result_(std::move(section)),
        family_(family()),
        table_(table_of("config.json")) {}

  FromFolder read() {
    settle_tables();
    settle_tied();
    settle_experts();
    auto unknown = judge();
    judge_wrapper(unknown);
    for (const auto& spec : registration_.schema) {
      if (!has(result_, spec)) take(spec);
    }
    require_sizes();
    faults_.throw_if_any();
    auto note = note_of(unknown);
    if (decodes_experts(whole_)) note += cat(note.empty() ? "" : "\n", file_, experts_note);
    if (!tied_note_.empty()) note += cat(note.empty() ? "" : "\n", tied_note_);
    return {std::move(result_), std::move(note), std::move(unknown)};
  }

 private:
  std::string family() const {
    if (const auto* own = result_.find("model_type")) {
      if (const auto* text = std::get_if<std::string>(&own->value)) return *text;
    }
    const auto said = json_.value("model_type", Json());
    return said.is_string() ? said.get<std::string>() : "";
  }

  // What the plugin says of this kind of file, the family's own keys first, and its options.
  FileKeys table_of(const std::string& kind) const { return table_of(kind, family_); }

  FileKeys table_of(const std::string& kind, const std::string& family) const {
    FileKeys all{kind, {}, {}, FileKeys::Unknown::named};
    for (const auto& file : {cat(kind, " of ", family), kind}) {
      for (const auto& each : registration_.file_keys) {
        if (each.file == file) all.keys.insert(all.keys.end(), each.keys.begin(), each.keys.end());
      }
    }
    return all;
  }

  const config::Preset& defaults() const { return defaults_of(family_); }

  const config::Preset& defaults_of(const std::string& family) const {
    static const config::Preset none;
    const auto found = registration_.file_defaults.find(family);
    return found == registration_.file_defaults.end() ? none : found->second;
  }

  // What the family takes for the option that has this name outside of tables; null: nothing.
  Json default_length(const std::string& name) const {
    for (const auto& spec : registration_.schema) {
      const auto names = names_of(spec);
      if (std::find(names.begin(), names.end(), name) == names.end()) continue;
      for (const auto& [key, value] : defaults()) {
        const auto* length = std::get_if<std::int64_t>(&value);
        if (length && key == spec.key) return *length;
      }
    }
    return {};
  }

  void settle_tables() {
    RopeReader reader;
    reader.is_set = [this](const std::string& name) {
      return std::any_of(registration_.schema.begin(), registration_.schema.end(), [&](const auto& spec) {
        const auto names = names_of(spec);
        return std::find(names.begin(), names.end(), name) != names.end() && has(result_, spec);
      });
    };
    reader.longest = default_length("max_position_embeddings");
    reader.original = default_length("original_max_position_embeddings");
    settle_rope(json_, reader, where_, faults_);
    if (has_option("global_head_dim")) settle_layers(json_);
  }

  std::optional<bool> tied_in(const Json& json, const std::string& family) const {
    const auto said = json.value(tied_key, Json());
    if (said.is_boolean()) return said.get<bool>();
    for (const auto& [key, value] : defaults_of(family)) {
      if (key == tied_key) return std::get<bool>(value);
    }
    return {};
  }

  bool has_option(const std::string& key) const {
    const auto& schema = registration_.schema;
    return std::any_of(schema.begin(), schema.end(), [&](const auto& spec) { return spec.key == key; });
  }

  void settle_experts() {
    constexpr const char* key = "experts_together";
    const auto together = has_option(key) && !result_.find(key) ? has_fused_experts(folder_) : std::nullopt;
    if (together) add(key, *together, file_);
  }

  // transformers 5 goes by the wrapper's flag and the head that is in the files, transformers 4 by the text model's:
  // where the two flags differ the files decide.
  void settle_tied() {
    if (!is_wrapper(whole_) || result_.find(tied_key)) return;
    const auto outer = tied_in(whole_, family_of(whole_)), inner = tied_in(json_, family_);
    if (!outer || outer == inner) return;
    const auto has = has_head(folder_);
    if (!has) return;
    json_[tied_key] = !*has;
    tied_note_ = cat(file_, ": ", tied_note(outer, inner, *has));
  }

  // An option's name that the table does not know is used.
  bool is_read(const std::string& name) const {
    const auto* key = table_.find(name);
    return !key || key->use == FileKey::Use::used || key->use == FileKey::Use::only;
  }

  std::vector<std::string> read_names(const config::OptionSpec& spec) const {
    auto names = names_of(spec);
    std::erase_if(names, [this](const auto& name) { return !is_read(name); });
    return names;
  }

  // Returns unknown keys. In a table of which options are known ("rope_scaling") a key that none of them
  // has is one that is misspelt, or one that changes the model in a way that Capstan does not know.
  std::vector<std::string> judge() {
    std::vector<std::string> tables;
    auto top = table_;
    std::erase_if(top.keys, [](const auto& key) { return key.name.find('.') != std::string::npos; });
    auto inside = table_;
    inside.unknown = FileKeys::Unknown::refused;
    for (const auto& spec : registration_.schema) {
      for (const auto& name : names_of(spec)) {
        const auto dot = name.find('.');
        auto& keys = dot == std::string::npos ? top.keys : inside.keys;
        if (!table_.find(name)) keys.push_back({name});
        if (dot != std::string::npos) tables.push_back(name.substr(0, dot));
      }
    }
    for (const auto& table : std::set(tables.begin(), tables.end())) {
      top.keys.push_back({table});
      for (const auto& [key, value] : neutral_in_tables)
        inside.keys.push_back({cat(table, ".", key), FileKey::Use::only, "such models are not supported", {value}});
      judge_table(inside, table);
    }
    return config::judge_keys(top, json_.dump(), where_, faults_);
  }

  // What stands beside the text model's table.
  void judge_wrapper(std::vector<std::string>& unknown) {
    if (!is_wrapper(whole_) || !reads_wrapper(registration_, family_of(whole_))) return;
    auto beside = whole_;
    beside.erase(text_table);
    beside.erase("model_type");  // by which the table was found
    const auto table = table_of("config.json", family_of(whole_));
    for (auto& key : config::judge_keys(table, beside.dump(), file_, faults_)) unknown.push_back(std::move(key));
  }

  void judge_table(const FileKeys& inside, const std::string& table) {
    const auto* found = find_key(json_, table);
    if (!found || found->is_null()) return;
    if (!found->is_object()) {
      faults_.add(where_, cat(table, " is ", short_text(*found), ", not an object"), "download the file again");
      return;
    }
    config::judge_keys(inside, Json{{table, *found}}.dump(), where_, faults_);
  }

  std::string note_of(std::vector<std::string> unknown) const {
    const auto sampling = table_of("generation_config.json");
    const auto file = std::filesystem::path(file_).parent_path() / sampling.file;
    Diagnostics none;
    if (!sampling.keys.empty() && is_there(file)) {
      for (auto& key : config::judge_keys(sampling, read_file(file), file.string(), none))
        unknown.push_back(cat(key, " (", sampling.file, ")"));
    }
    if (unknown.empty() || table_.keys.empty()) return {};
    return cat(file_, " has keys that Capstan does not know and passes over: ", printable(join(unknown)),
               "; `capstan reference --files` lists those that it knows");
  }

  void take(const config::OptionSpec& spec) {
    const Json* value = nullptr;
    std::string said;
    bool is_null = false;
    for (const auto& name : read_names(spec)) {
      const auto* found = find_key(json_, name);
      if (!found) continue;
      is_null = is_null || found->is_null();
      if (found->is_null() || (value && *value == *found)) continue;
      if (value) {
        faults_.add(where_,
                    cat(said, " = ", short_text(*value), " and ", name, " = ", short_text(*found),
                        " mean the same, and disagree"),
                    cat("keep the one that is right, or set model.", spec.key));
        return;
      }
      value = found;
      said = name;
    }
    if (value) {
      add(spec.key, value_of(*value, spec.type), where_);
    } else if (!is_null || !is_optional(spec)) {
      take_default(spec);
    }
  }

  // Does the file have the table that the option is in? What it leaves out of one is not what a family takes without.
  bool has_table_of(const config::OptionSpec& spec) const {
    const auto names = read_names(spec);
    const auto table = [](const std::string& name) { return name.substr(0, name.find('.')); };
    const auto is_inside = [&](const auto& name) { return table(name) != name; };
    const auto is_there = [&](const auto& name) {
      const auto* found = find_key(json_, table(name));
      return found && found->is_object() && !found->empty();
    };
    return std::all_of(names.begin(), names.end(), is_inside) && std::any_of(names.begin(), names.end(), is_there);
  }

  void take_default(const config::OptionSpec& spec) {
    if (has_table_of(spec)) return;
    for (const auto& [key, value] : defaults()) {
      if (key == spec.key) add(key, value, cat(where_, " (left out: what transformers takes for ", family_, ")"));
    }
  }

  void add(const std::string& key, config::Value value, const std::string& from) {
    result_.entries.push_back({key, std::move(value), {config::Origin::Layer::model_file, from, 0}});
  }

  // Without one of these a file describes no model: the plugin's default is the size of a toy.
  void require_sizes() {
    constexpr std::array sizes{"vocab_size", "hidden_size", "num_layers", "num_heads", "ff_dim"};
    for (const auto& spec : registration_.schema) {
      const bool is_size = std::find(sizes.begin(), sizes.end(), spec.key) != sizes.end();
      if (!is_size || is_optional(spec) || has(result_, spec)) continue;
      faults_.add(where_,
                  cat("it does not say how large the model is: ", join(read_names(spec), " or "), " is missing"),
                  cat("download it again, or set model.", spec.key));
    }
  }

  std::string file_;
  std::string folder_;
  Json whole_;
  Json json_;          // what it says of the model that is trained: whole_, or a part of it
  std::string where_;  // for messages about json_
  const plugin::Registration& registration_;
  config::Section result_;
  std::string family_;
  FileKeys table_;
  std::string tied_note_;  // says which of two flags counts
  Diagnostics faults_;
};

}  // namespace

std::vector<std::string> names_of(const config::OptionSpec& spec) {
  std::vector<std::string> names{spec.key};
  names.insert(names.end(), spec.spellings.begin(), spec.spellings.end());
  return names;
}

FromFolder with_model_file(const config::Section& section, const ModelFolder& folder,
                           const plugin::Registration& registration) {
  refuse_adapter(folder);
  const auto file = (std::filesystem::path(folder.path) / "config.json").string();
  if (!is_there(file)) {
    throw Error("model.path: there is no file " + file,
                "name a Hugging Face model folder, with config.json and *.safetensors", folder.where);
  }
  return Reader(section, registration, file).read();
}

}  // namespace capstan::hf
