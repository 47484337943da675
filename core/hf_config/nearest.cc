#include "hf/nearest.h"

#include <capstan/base/counted.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "hf/config_file.h"
#include "hf/wrapper.h"

namespace capstan::hf {
namespace {

// A known family, and in what a config.json is not one of it.
struct Candidate {
  std::string family;
  std::string plugin;
  std::vector<std::string> differences;
};

std::string value_text(const Json& config, const std::string& key) {
  constexpr std::size_t longest = 40;
  const auto found = config.find(key);
  if (found == config.end()) return {};
  const auto text = found->dump();
  return cat(" = ", printable(text.size() > longest ? text.substr(0, longest) + " …" : text));
}

// What the family's reader says of the file, and the plugin of the values that it has read.
Candidate compare(const std::string& family, const plugin::Registration& registration, const std::string& folder,
                  const Json& config) {
  Candidate one{family, registration.name, {}};
  const auto add = [&](const std::vector<Diagnostic>& faults) {
    for (const auto& fault : faults) one.differences.push_back(fault.what);
  };
  const config::Section asked{"model", {}, {{"model_type", family, {}}}};
  try {
    auto read = with_model_file(asked, {folder, ""}, registration);
    for (const auto& key : read.unknown) one.differences.push_back(key + value_text(config, key));
    Diagnostics faults;
    config::resolve(registration.schema, read.section, faults);
    add(faults.list());
  } catch (const Error& error) {
    add(error.diagnostics());
  }
  return one;
}

std::vector<Candidate> candidates(const std::string& folder, const Json& config, plugin::Host& host) {
  std::vector<Candidate> all;
  for (const auto& found : host.discover()) {
    if (found.kind != "model" || !found.registration) continue;
    for (const auto& option : found.registration->schema) {
      if (option.key != "model_type") continue;
      for (const auto& family : option.choices) all.push_back(compare(family, *found.registration, folder, config));
    }
  }
  return all;
}

std::string differences_text(const Candidate& nearest) {
  constexpr std::size_t shown = 12;
  auto list = nearest.differences;
  if (list.empty()) return "no key or value differs from those of such a model";
  const auto more = list.size() > shown ? list.size() - shown : 0;
  list.resize(list.size() - more);
  return cat("these differ from such a model: ", join(list, "; "), more > 0 ? cat("; and ", more, " more") : "");
}

}  // namespace

void refuse_unknown_family(const std::string& folder, plugin::Host& host) {
  const auto file = (std::filesystem::path(folder) / "config.json").string();
  const auto json = try_parse_json(read_file(file));
  const auto& config = text_part(json);
  const auto what = cat("no model plugin computes models of type '", printable(family_of(config)), "'");
  const auto all = candidates(folder, config, host);
  const auto nearest = std::min_element(
      all.begin(), all.end(), [](const auto& a, const auto& b) { return a.differences.size() < b.differences.size(); });
  if (nearest == all.end()) throw Error(what, "take another model; `capstan plugins` lists the plugins", file);
  throw Error(cat(what, ". The nearest known type is '", nearest->family, "': ", differences_text(*nearest)),
              cat("take another model, or, if its authors say that it is computed as a ", nearest->family,
                  " is, set model.plugin = \"", nearest->plugin, "\" and model.model_type = \"", nearest->family, "\""),
              file);
}

}  // namespace capstan::hf
