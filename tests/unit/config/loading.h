#pragma once
#include <string>
#include <vector>

#include "config/document.h"
#include "config/files.h"

namespace test {

/// "value @ where" of a key; "" when it is not there.
inline std::string look(const capstan::config::Section& section, const std::string& key) {
  const auto* entry = section.find(key);
  return entry ? capstan::config::value_text(entry->value) + " @ " + entry->origin.text() : std::string();
}

/// All diagnostics of one file, or the Error's text.
inline std::string faults(const std::string& content, const std::vector<std::string>& overrides = {}) {
  const WorkingFolder folder;
  folder.write("a.toml", content);
  capstan::Diagnostics diagnostics;
  const auto error = error_of([&] { capstan::config::load("a.toml", overrides, diagnostics); });
  return error.empty() ? text(diagnostics) : error;
}

/// The same of a file that is there.
inline std::string faults_of(const std::string& file, const std::vector<std::string>& overrides = {}) {
  capstan::Diagnostics diagnostics;
  const auto error = error_of([&] { capstan::config::load(file, overrides, diagnostics); });
  return error.empty() ? text(diagnostics) : error;
}

}  // namespace test
