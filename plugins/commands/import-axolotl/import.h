#pragma once
#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan/config/value.h>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "axolotl_keys.h"
#include "file.h"
#include "imports/settings.h"

namespace import_axolotl {

using capstan::Json;
using capstan::config::Value;

/// What surrounds a file.
struct Surroundings {
  std::filesystem::path folder = {};  ///< where the TOML will stand, from which its relative paths start; empty: here
  /// A variable of the environment, which says where the hub's cache is.
  std::function<std::optional<std::string>(const std::string&)> environment = [](const std::string&) {
    return std::optional<std::string>();
  };
};

/// One axolotl configuration on its way to ours: what it says, and what becomes of it.
class Import {
 public:
  Import(File file, Surroundings around) : file_(std::move(file)), around_(std::move(around)) {}

  /// Holds each key against the tables: takes copied ones over, notes or refuses others, and keeps the values that
  /// are asked for below.
  void judge();

  /// What the file says under a path such as "datasets[0].type". Null where the key is absent, says null, or has a
  /// value of another type than its own, which is a fault then. Keys of fsdp_config have no "fsdp_" before them.
  const Json* find(const std::string& path) const;
  bool has(const std::string& path) const { return find(path) != nullptr; }
  /// Empty where there is none.
  std::string text(const std::string& path) const;
  std::vector<std::string> texts(const std::string& path) const;
  std::optional<double> number(const std::string& path) const;
  bool is_true(const std::string& path) const { return has(path) && *find(path) == true; }
  bool is_false(const std::string& path) const { return has(path) && *find(path) == false; }

  /// One of our options; two different values of one are a fault.
  void set(const std::string& ours, const Value& value, const std::string& path);
  /// What axolotl does where the file says nothing.
  void set_default(const std::string& ours, const Value& value, const std::string& why);
  /// The user must choose: a comment in the option's place, with an example.
  void choose(const std::string& ours, const std::string& example, const std::string& why, const std::string& path);
  void note(const std::string& path, const std::string& words);
  void fault(const std::string& path, const std::string& what, const std::string& fix);
  /// A path that axolotl would look for in the current folder, as the TOML names it.
  std::string local(const std::string& path) const;

  /// The text of the token that ends an answer: as the file says it, else as the tokenizer's folder on this machine
  /// does; empty where neither is there.
  std::string end_token() const;

  const File& file() const { return file_; }
  const imports::Settings& settings() const { return settings_; }
  const std::vector<std::string>& choices() const { return choices_; }
  const capstan::Diagnostics& faults() const { return faults_; }

 private:
  void walk(const Json& value, const std::string& path);
  void walk_inside(const Json& value, const std::string& path);
  void take(const AxolotlKey& key, const Json& value, const std::string& path);
  void keep(const AxolotlKey& key, const Json& value, const std::string& path);
  void unknown(const std::string& path);

  File file_;
  Surroundings around_;
  std::map<std::string, Json> values_;
  imports::Settings settings_;
  std::vector<std::string> choices_;
  capstan::Diagnostics faults_;
};

/// The path as the tables have it: "datasets[].type" for "test_datasets[3].type".
std::string table_path(const std::string& path);

}  // namespace import_axolotl
