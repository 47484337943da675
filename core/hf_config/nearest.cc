#include "hf/nearest.h"

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
  std::size_t not_said = 0;  ///< options that the family's files say, and this one does not
};

std::string value_text(const Json& config, const std::string& key) {
  const auto found = config.find(key);
  return found == config.end() ? "" : cat(" = ", printable(found->dump().substr(0, 40)));
}

// Does the file have a key of this option, or the table that such a key is in?
bool is_said(const config::OptionSpec& option, const Json& config) {
  const auto& names = option.spellings;
  return config.find(option.key) != config.end() || std::any_of(names.begin(), names.end(), [&](const auto& name) {
           return config.find(name.substr(0, name.find('.'))) != config.end();
         });
}

// What the family's reader says of the file, and the plugin of the values that it has read.
Candidate compare(const std::string& family, const plugin::Registration& registration, const std::string& folder,
                  const Json& config) {
  Candidate one{family, registration.name, {}};
  for (const auto& option : registration.schema) one.not_said += !is_said(option, config);
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

std::string differences_text(std::vector<std::string> list) {
  if (list.empty()) return "no key of it is another, but what it computes may be";
  const auto more = list.size() - std::min<std::size_t>(list.size(), 12);
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
  const auto far = [](const Candidate& one) { return one.differences.size() + one.not_said; };
  const auto nearest = std::min_element(all.begin(), all.end(), [&](auto& a, auto& b) { return far(a) < far(b); });
  const auto lacks_size = [](const auto& words) { return words.starts_with("it does not say how large"); };
  if (nearest == all.end() || std::any_of(nearest->differences.begin(), nearest->differences.end(), lacks_size))
    throw Error(what, "take another model; `capstan plugins` lists the plugins", file);
  throw Error(
      cat(what, ". The nearest known type is '", nearest->family, "': ", differences_text(nearest->differences)),
      cat("take another model, or, if its authors say that it is computed as a ", nearest->family,
          " is, set model.plugin = \"", nearest->plugin, "\" and model.model_type = \"", nearest->family, "\""),
      file);
}

}  // namespace capstan::hf
