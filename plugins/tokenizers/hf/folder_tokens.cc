#include "folder_tokens.h"

#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>
#include <capstan/config/file_keys.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "file_tables.h"
#include "json_file.h"
#include "token_classes.h"

namespace hf {

using namespace capstan;

namespace {

constexpr std::array standard_names{"bos_token", "eos_token", "unk_token", "sep_token",
                                    "pad_token", "cls_token", "mask_token"};

bool is_standard(const std::string& name) {
  return std::find(standard_names.begin(), standard_names.end(), name) != standard_names.end();
}

// A token, or null, and not a flag such as add_bos_token.
bool is_token(const Json& value) { return value.is_string() || (value.is_object() && value.contains("content")); }

AddedToken plain_token(std::string content) {
  AddedToken token;
  token.content = std::move(content);
  token.special = true;
  return token;
}

// A token's text, or an object with its "content" and flags. Those of special_tokens_map.json are all special.
AddedToken token_of(const JsonPart& part, bool is_special) {
  if (part.json().is_string()) return plain_token(part.json().get<std::string>());
  part.only({"content", "single_word", "lstrip", "rstrip", "normalized", "special", "__type"});
  AddedToken token;
  token.content = part.text("content");
  token.single_word = part.flag("single_word", false);
  token.lstrip = part.flag("lstrip", false);
  token.rstrip = part.flag("rstrip", false);
  token.special = is_special || part.flag("special", false);
  token.normalized = part.flag("normalized", !token.special);
  return token;
}

// Reads the files. The older ones count only where the newest does not list the tokens.
class Reader {
 public:
  Reader(const std::filesystem::path& folder, const TokenizerSpec& spec)
      : spec_(spec),
        config_(folder, "tokenizer_config.json"),
        map_(folder, "special_tokens_map.json"),
        added_(folder, "added_tokens.json"),
        is_new_(config_.part(faults_).has("added_tokens_decoder")) {}

  FolderTokens read() {
    judge(config_, tokenizer_config_keys());
    if (!is_new_) judge(map_, special_tokens_map_keys());
    read_named();
    read_lists();
    if (is_new_) {
      read_decoder();
    } else {
      read_added();
    }
    add_class_defaults();
    check_prefix_space();
    faults_.throw_if_any();
    return std::move(tokens_);
  }

 private:
  void judge(const JsonFile& file, const config::FileKeys& table) {
    auto unknown = config::judge_keys(table, file.text, file.path, faults_);
    std::erase_if(unknown, [&](const auto& key) { return key.ends_with("_token") && is_token(file.json.at(key)); });
    if (!unknown.empty())
      log::warning(cat(file.path, ": Capstan does not know these keys, and ignores them: ", join(unknown)));
  }

  // The file that says what a key is: the older one overrides, if it counts, but for a family's own name of a token.
  const JsonFile& file_with(const std::string& key) const {
    const bool is_own = !is_standard(key) && config_.has(key) && config_.json.at(key).is_string();
    return !is_new_ && map_.has(key) && !is_own ? map_ : config_;
  }
  bool is_said(const std::string& key) const { return file_with(key).has(key); }

  void add_named(const std::string& name) {
    const auto& file = file_with(name);
    const auto part = file.part(faults_);
    if (!part.has(name)) return;
    if (!is_token(part.at(name).json())) return part.at(name).refuse("is no token");
    tokens_.named.push_back({name, token_of(part.at(name), &file == &map_), file.path});
  }

  void read_named() {
    for (const auto* name : standard_names) add_named(name);
    std::set<std::string> others;
    for (const auto* file : {&config_, &map_}) {
      if (!file->json.is_object() || (file == &map_ && is_new_)) continue;
      for (const auto& [key, value] : file->json.items()) {
        if (key.ends_with("_token") && !is_standard(key) && is_token(value)) others.insert(key);
      }
    }
    for (const auto& name : others) add_named(name);
  }

  // A list of tokens, or an object that gives them names.
  void add_list(const JsonFile& file, const char* key) {
    const auto part = file.part(faults_).at(key);
    const bool is_special = &file == &map_;
    if (part.json().is_object()) {
      for (const auto& [name, value] : part.json().items())
        tokens_.named.push_back({name, token_of(part.at(name), is_special), file.path});
    } else if (!part.json().is_null()) {
      for (const auto& item : file.part(faults_).list(key)) tokens_.extra.push_back(token_of(item, is_special));
    }
  }

  // The newer name of the list counts; the older file adds to it, or has it if the newer one has none.
  void read_lists() {
    constexpr auto newer = "extra_special_tokens";
    constexpr auto older = "additional_special_tokens";
    add_list(config_, config_.part(faults_).has(newer) ? newer : older);
    add_list(config_, "model_specific_special_tokens");
    if (is_new_) return;
    if (map_.part(faults_).has(newer)) {
      add_list(map_, newer);
    } else if (tokens_.extra.empty()) {
      add_list(map_, older);
      is_extra_late_ = true;
    }
  }

  static std::optional<std::int32_t> id_in(const std::string& text) {
    const bool is_number = !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == text.npos;
    return is_number ? std::optional(std::stoi(text)) : std::nullopt;
  }

  void read_decoder() {
    tokens_.listed_file = config_.path;
    const auto decoder = config_.part(faults_).at("added_tokens_decoder");
    if (!decoder.json().is_object()) return decoder.refuse("is no object");
    for (const auto& [key, value] : decoder.json().items()) {
      const auto part = decoder.at(key);
      const auto id = id_in(key);
      if (!id || !value.is_object()) {
        part.refuse("is no id with a token's object");
        continue;
      }
      auto token = token_of(part, false);
      token.id = *id;
      tokens_.listed.push_back({std::move(token), part.name()});
    }
    sort_listed();
  }

  // With those of tokenizer.json, which are as that says.
  void read_added() {
    tokens_.listed_file = added_.path;
    std::set<std::string> special;
    for (const auto& one : tokens_.named) special.insert(is_standard(one.name) ? one.token.content : "");
    for (const auto& token : tokens_.extra) special.insert(is_extra_late_ ? "" : token.content);
    std::set<std::string> own;
    for (const auto& token : spec_.added) {
      own.insert(token.content);
      tokens_.listed.push_back({token, {}});
    }
    for (const auto& [content, id] : added_.json.items()) {
      auto token = plain_token(content);
      token.special = special.contains(content);
      token.normalized = !token.special;
      token.id = static_cast<std::int32_t>(added_.part(faults_).number(content));
      (own.contains(content) ? tokens_.repeated : tokens_.listed).push_back({std::move(token), "the file"});
    }
    sort_listed();
  }

  void sort_listed() {
    std::sort(tokens_.listed.begin(), tokens_.listed.end(),
              [](const auto& a, const auto& b) { return a.token.id < b.token.id; });
  }

  bool is_known(const std::string& content) const {
    const auto is_it = [&](const auto& token) { return token.content == content; };
    return std::any_of(spec_.added.begin(), spec_.added.end(), is_it) ||
           std::any_of(tokens_.listed.begin(), tokens_.listed.end(),
                       [&](const auto& one) { return is_it(one.token); }) ||
           std::any_of(spec_.model.vocabulary.begin(), spec_.model.vocabulary.end(),
                       [&](const auto& item) { return item.first == content; });
  }

  std::string class_name() const {
    const auto part = config_.part(faults_);
    auto name = part.has("tokenizer_class") ? part.text("tokenizer_class") : "";
    if (name.ends_with("Fast")) name.resize(name.size() - 4);
    return name;
  }

  void add_class_defaults() {
    for (const auto& [name, content] : default_tokens(class_name())) {
      if (!is_said(name) && is_known(content)) tokens_.named.push_back({name, plain_token(content), config_.path});
    }
  }

  void check_prefix_space() {
    const auto part = config_.part(faults_);
    if (!part.has("add_prefix_space") || !builds_prefix_space(class_name())) return;
    const bool asked = part.flag("add_prefix_space", false);
    if (asked == has_prefix_space(spec_)) return;
    part.at("add_prefix_space")
        .refuse(cat("is ", asked ? "true" : "false", ", but the steps of tokenizer.json put ", asked ? "no" : "a",
                    " space before a text, and transformers would go by it for a ", class_name()),
                "save the tokenizer again with transformers, so that both say the same");
  }

  const TokenizerSpec& spec_;
  mutable Diagnostics faults_;
  JsonFile config_;
  JsonFile map_;
  JsonFile added_;
  bool is_new_;                 // tokenizer_config.json lists the tokens itself
  bool is_extra_late_ = false;  // transformers reads the list after added_tokens.json
  FolderTokens tokens_;
};

}  // namespace

const FolderTokens::Named* FolderTokens::find(const std::string& name) const {
  const auto found = std::find_if(named.begin(), named.end(), [&](const auto& one) { return one.name == name; });
  return found == named.end() ? nullptr : &*found;
}

FolderTokens read_folder_tokens(const std::filesystem::path& folder, const TokenizerSpec& spec) {
  return Reader(folder, spec).read();
}

std::vector<std::filesystem::path> files_beside(const std::filesystem::path& folder) {
  return {folder / "tokenizer_config.json", folder / "special_tokens_map.json", folder / "added_tokens.json",
          folder / "generation_config.json", folder / "config.json"};
}

}  // namespace hf
