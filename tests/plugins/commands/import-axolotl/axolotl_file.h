#pragma once
#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plugins/commands/import-axolotl/translate.h"

namespace test {

/// What Python would read from a YAML file "a.yml" whose keys stand one a line; written here as JSON's members, without
/// the outer braces, so that no Python is needed. Keys of inner tables have no lines.
inline import_axolotl::File axolotl_file(const std::string& members) {
  import_axolotl::File file{"a.yml", capstan::Json::parse("{" + members + "}"), {}};
  for (const auto& [key, value] : file.value.items()) {
    const auto place = members.find("\"" + key + "\":");
    const auto lines = std::count(members.begin(), members.begin() + static_cast<std::ptrdiff_t>(place), '\n');
    file.lines[key] = static_cast<int>(lines) + 1;
  }
  return file;
}

/// A configuration that says what every one must, and this.
inline std::string least_and(const std::string& members) {
  std::string least =
      R"("base_model": "org/model", "learning_rate": 1e-4, "datasets": [{"path": "org/rows", "type": "completion"}])";
  for (const std::string key : {"base_model", "learning_rate", "datasets"}) {
    if (members.find("\"" + key + "\":") == std::string::npos) continue;
    auto json = capstan::Json::parse("{" + least + "}");
    json.erase(key);
    const auto text = json.dump();
    least = text.substr(1, text.size() - 2);
  }
  return members.empty() ? least : least.empty() ? members : least + ",\n" + members;
}

inline import_axolotl::Translated import_axolotl_text(const std::string& members) {
  return import_axolotl::translate(axolotl_file(least_and(members)), {});
}

/// Each fault on one line.
inline std::vector<std::string> axolotl_faults(const std::string& members) {
  try {
    import_axolotl_text(members);
  } catch (const capstan::Error& error) {
    std::vector<std::string> out;
    for (const auto& fault : error.diagnostics())
      out.push_back(capstan::cat(fault.where, ": ", fault.what, " (", fault.fix, ")"));
    return out;
  }
  return {};
}

}  // namespace test
