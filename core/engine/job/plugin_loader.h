#pragma once
#include <capstan/base/export.h>

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "data/content.h"
#include "hf/door.h"
#include "job/model_table.h"
#include "job/packed_forms.h"
#include "job/plugins.h"
#include "setup/collect.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// What the host itself reads from the tables of this kind of plugin.
std::vector<std::string> host_keys(const std::string& kind);

/// Takes the tables of a list, such as [[optimizer.groups]], out of the section, which has them with dotted keys
/// ("groups.1.lr_factor"). In the order in which they begin.
std::vector<config::Section> take_tables(config::Section& section, const std::string& list);

/// The model with its records where this folder has them, which may be inside of a model around it.
std::shared_ptr<nn::Model> in_folder(std::shared_ptr<nn::Model> model, const std::string& folder);

/// Loads plugins and makes their objects from the tables that name them.
class Loader {
 public:
  Loader(plugin::Host& host, Diagnostics& faults, std::vector<nn::PackedForm> forms = {})
      : host_(host), faults_(faults), forms_(std::move(forms)) {}

  /// The strategies' forms, and what the model's folder made necessary.
  const std::vector<nn::PackedForm>& forms() const { return forms_; }

  template <class Interface>
  std::optional<Made<Interface>> make(const std::string& kind, const config::PluginTable& table,
                                      const ModelStart& start = {}, const std::string& split = {}) {
    Made<Interface> made;
    made.name = table.name;
    made.where = table.where;
    made.table = table.section.path;
    made.host = table.host;
    setup::collect(
        faults_, [&] { fill(made, kind, table, start, split); }, table.where);
    if (!made.object) return {};
    return made;
  }

  /// The preset of this plugin that model.path names, by its last part.
  std::optional<StandIn> stand_in(const config::PluginTable& table,
                                  const config::Options<setup::ModelOptions>& options);

  const config::Schema& schema_of(const std::string& kind, const config::PluginTable& table) {
    return host_.load(kind, table.name, table.path).schema;
  }

  template <class Interface>
  std::vector<Made<Interface>> make_all(const std::string& kind, const config::Document& document) {
    std::vector<Made<Interface>> all;
    for (const auto& section : document.children(kind)) {
      const auto table = config::keyed_plugin(section, faults_);
      if (!table.enabled) continue;
      if (auto made = make<Interface>(kind, table)) all.push_back(std::move(*made));
    }
    return all;
  }

 private:
  template <class Interface>
  void fill(Made<Interface>& made, const std::string& kind, const config::PluginTable& table, const ModelStart& start,
            const std::string& split) {
    const auto& registration = host_.load(kind, table.name, table.path);
    made.file = registration.file;
    auto section = table.section;
    if (start.folder) {
      hf::door().check_family(section, *start.folder, registration, host_);
      forms_ = forms_of_folder(start.folder->path, std::move(forms_), host_);
      auto read = hf::door().with_model_file(section, *start.folder, registration);
      section = std::move(read.section);
      made.note = std::move(read.note);
    }
    if (start.preset) section = setup::with_preset(section, *start.preset, registration.presets, table.name);
    if (!split.empty()) data::leave_out_other_splits(section, split, registration.schema);
    Diagnostics own;
    config::refuse_unknown(section, registration.schema, host_keys(kind), own);
    made.options = config::resolve(registration.schema, section, own);
    const bool usable = own.empty();
    for (const auto& diagnostic : own.list()) faults_.add(diagnostic);
    if (!usable) return;
    const auto make = [section, start, make = registration.make](Diagnostics& faults) {
      auto object = std::static_pointer_cast<Interface>(make(section, faults));
      if constexpr (std::is_same_v<Interface, nn::Model>) {
        if (start.folder) object = in_folder(std::move(object), start.folder->path);
      }
      return object;
    };
    made.object = make(faults_);
    made.make_another = [make] {
      Diagnostics none;
      return make(none);
    };
  }

  plugin::Host& host_;
  Diagnostics& faults_;
  std::vector<nn::PackedForm> forms_;
};

}  // namespace job
CAPSTAN_END_NAMESPACE
