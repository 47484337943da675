#pragma once
// Options as a plugin's table gives them.
#include <capstan/config/options.h>

#include <string>
#include <utility>
#include <vector>

namespace capstan::testing {

using OptionValues = std::vector<std::pair<std::string, config::Value>>;

/// The options of the table [path], with the values on lines 2, 3, … of a.toml. Throws their faults.
template <class T>
config::Options<T> options_of(const std::string& path, const OptionValues& values) {
  config::Section section;
  section.path = path;
  section.origin = {config::Origin::Layer::file, "a.toml", 1};
  int line = 1;
  for (const auto& [key, value] : values)
    section.entries.push_back({key, value, {config::Origin::Layer::file, "a.toml", ++line}});
  Diagnostics diagnostics;
  config::Options<T> made(section, diagnostics);
  diagnostics.throw_if_any();
  return made;
}

}  // namespace capstan::testing
