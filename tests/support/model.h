#pragma once
// Model plugins as the host loads them, for their tests.
#include <capstan/nn/model.h>
#include "nn/model_summary.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <capstan/plugin/host.h>
#include "setup/presets.h"

namespace capstan::testing {

using ModelOptions = std::vector<std::pair<std::string, config::Value>>;

/// Options of a decoder of one small block, and these.
inline ModelOptions tiny_with(const ModelOptions& more) {
  ModelOptions options{{"num_layers", std::int64_t{1}}, {"hidden_size", std::int64_t{16}},
                       {"num_heads", std::int64_t{4}},  {"num_kv_heads", std::int64_t{2}},
                       {"ff_dim", std::int64_t{20}},    {"vocab_size", std::int64_t{31}}};
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

inline plugin::Host& model_host() {
  static plugin::Host host;
  return host;
}

/// The plugin's model from options on lines 10, 11, … of a.toml, over a preset where one is named.
inline std::shared_ptr<nn::Model> make_model(const std::string& plugin, const ModelOptions& options,
                                             Diagnostics& diagnostics, const std::string& preset = {}) {
  config::Section section{"model", {}, {}};
  int line = 10;
  for (const auto& [key, value] : options)
    section.entries.push_back({key, value, {config::Origin::Layer::file, "a.toml", line++}});
  const auto& registration = model_host().load("model", plugin);
  if (!preset.empty()) section = setup::with_preset(section, {preset, "a.toml:9"}, registration.presets, plugin);
  return std::static_pointer_cast<nn::Model>(registration.make(section, diagnostics));
}

/// The same, without faults.
inline std::shared_ptr<nn::Model> make_model(const std::string& plugin, const ModelOptions& options,
                                             const std::string& preset = {}) {
  Diagnostics diagnostics;
  auto model = make_model(plugin, options, diagnostics, preset);
  diagnostics.throw_if_any();
  model->check(diagnostics);
  diagnostics.throw_if_any();
  return model;
}

/// What options and check() say of faults, each as its text.
inline std::vector<std::string> model_faults(const std::string& plugin, const ModelOptions& options) {
  Diagnostics diagnostics;
  const auto model = make_model(plugin, options, diagnostics);
  if (diagnostics.empty()) model->check(diagnostics);
  std::vector<std::string> out;
  for (const auto& diagnostic : diagnostics.list()) out.push_back(diagnostic.text());
  return out;
}

/// Every record once, by name.
inline std::map<std::string, layout::Param> records_of(const nn::Model& model) {
  std::map<std::string, layout::Param> records;
  std::set<const nn::Weight*> seen;
  for (const auto& unit : model.build()) {
    for (const auto& weight : unit->weights()) {
      if (!seen.insert(weight.get()).second) continue;
      for (const auto& record : weight->records()) CAPSTAN_ASSERT(records.emplace(record.name, record).second);
    }
  }
  return records;
}

/// The shape of each tensor that the model's files hold, by its name there; parts of one tensor agree on it.
inline std::map<std::string, layout::Shape> files_of(const nn::Model& model) {
  const auto map = model.file_map();
  const auto records = records_of(model);
  CAPSTAN_ASSERT(map.tensors.size() == records.size());
  std::map<std::string, layout::Shape> files;
  for (const auto& [name, tensor] : map.tensors) {
    const auto shape = tensor.expected_shape(records.at(name).shape);
    for (const auto& file : tensor.stack.empty() ? std::vector<std::string>{tensor.name} : tensor.stack)
      CAPSTAN_ASSERT(files.emplace(file, shape).first->second == shape);
  }
  return files;
}

/// How many parameters each preset of the plugin has.
inline std::map<std::string, std::int64_t> parameters_of_presets(const std::string& plugin) {
  std::map<std::string, std::int64_t> out;
  for (const auto& [preset, options] : model_host().load("model", plugin).presets)
    out[preset] = nn::summarise(make_model(plugin, {}, preset)->build()).parameters;
  return out;
}

}  // namespace capstan::testing
