#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan/config/file_keys.h>

#include <algorithm>

namespace capstan::config {
namespace {

constexpr std::size_t longest_value = 60;

std::string short_text(const Json& value) {
  auto text = value.dump();
  if (text.size() > longest_value) text = text.substr(0, longest_value) + " …";
  return text;
}

class Judge {
 public:
  Judge(const FileKeys& table, const std::string& where, Diagnostics& faults)
      : table_(table), where_(where), faults_(faults) {}

  void object(const Json& json, const std::string& prefix) {
    for (const auto& [key, value] : json.items()) {
      if (!value.is_null()) one(prefix + key, value);
    }
  }

  std::vector<std::string> unknown() { return std::move(unknown_); }

 private:
  void one(const std::string& name, const Json& value) {
    const auto* key = table_.find(name);
    const bool has_inside = std::any_of(table_.keys.begin(), table_.keys.end(),
                                        [&](const auto& each) { return each.name.starts_with(name + "."); });
    if (value.is_object() && has_inside) return object(value, name + ".");
    if (!key) return unknown(name, value);
    const auto is_value = [&](const auto& text) { return Json::parse(text) == value; };
    if (key->use == FileKey::Use::refused ||
        (key->use == FileKey::Use::only && std::none_of(key->allowed.begin(), key->allowed.end(), is_value))) {
      faults_.add(where_, cat(name, " = ", short_text(value), " is not supported"), key->words);
    }
  }

  void unknown(const std::string& name, const Json& value) {
    if (table_.unknown == FileKeys::Unknown::named) {
      unknown_.push_back(name);
      return;
    }
    std::vector<std::string> names;
    for (const auto& key : table_.keys) names.push_back(key.name);
    const auto near = nearest_name(name, names);
    faults_.add(where_, cat(name, " = ", short_text(value), " is a key that Capstan does not know in ", table_.file),
                near.empty() ? "remove it if it changes nothing; `capstan reference --files` lists the known ones"
                             : cat("did you mean '", near, "'?"));
  }

  const FileKeys& table_;
  const std::string& where_;
  Diagnostics& faults_;
  std::vector<std::string> unknown_;
};

}  // namespace

const FileKey* FileKeys::find(std::string_view name) const {
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const auto& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

std::vector<std::string> judge_keys(const FileKeys& table, std::string_view text, const std::string& where,
                                    Diagnostics& faults) {
  const auto json = try_parse_json(text).sorted();
  if (!json.is_object()) return {};
  Judge judge(table, where, faults);
  judge.object(json, {});
  return judge.unknown();
}

}  // namespace capstan::config
