#include "job/plugin_loader.h"

#include <capstan/base/text.h>

#include <algorithm>

#include "job/model_table.h"

namespace capstan::job {
namespace {

// Its records are where the folder has them.
class FolderModel : public nn::Model {
 public:
  FolderModel(std::shared_ptr<nn::Model> model, std::string folder)
      : model_(std::move(model)), folder_(std::move(folder)) {}
  void check(Diagnostics& diagnostics) const override { model_->check(diagnostics); }
  nn::ModelFacts facts() const override { return model_->facts(); }
  std::vector<std::unique_ptr<nn::Unit>> build() const override { return model_->build(); }
  double flops_per_token(std::int64_t sequence_length) const override {
    return model_->flops_per_token(sequence_length);
  }
  layout::FileMap file_map() const override { return hf::door().map_in(folder_, model_->file_map()); }

 private:
  std::shared_ptr<nn::Model> model_;
  std::string folder_;
};

}  // namespace

std::vector<std::string> host_keys(const std::string& kind) {
  std::vector<std::string> keys;
  const auto add = [&](const config::Schema& schema) {
    for (const auto& spec : schema) keys.push_back(spec.key);
  };
  if (kind == "model") add(config::Options<setup::ModelOptions>::schema());
  if (kind == "data") add(config::Options<setup::DataOptions>::schema());
  if (kind == "optimizer") add(config::Options<setup::OptimizerOptions>::schema());
  add(config::host_options(kind));
  return keys;
}

std::vector<config::Section> take_tables(config::Section& section, const std::string& list) {
  std::vector<config::Section> tables;
  std::vector<config::Entry> rest;
  for (auto& entry : section.entries) {
    const auto parts = split(entry.key, '.');
    if (parts.size() < 3 || parts.front() != list) {
      rest.push_back(std::move(entry));
      continue;
    }
    const auto path = cat(section.path, ".", list, ".", parts[1]);
    auto table = std::find_if(tables.begin(), tables.end(), [&](const auto& one) { return one.path == path; });
    if (table == tables.end()) table = tables.insert(table, {path, entry.origin, {}});
    entry.key = entry.key.substr(parts[0].size() + parts[1].size() + 2);
    table->entries.push_back(std::move(entry));
  }
  section.entries = std::move(rest);
  return tables;
}

std::optional<StandIn> Loader::stand_in(const config::PluginTable& table,
                                        const config::Options<setup::ModelOptions>& options) {
  if (table.name.empty() || !options->path) return {};
  const auto named = written_path(options);
  const auto preset = setup::preset_of_id(named, host_.load("model", table.name, table.path).presets);
  if (preset.empty()) return {};
  return StandIn{named, preset, options.where(&setup::ModelOptions::path)};
}

std::shared_ptr<nn::Model> in_folder(std::shared_ptr<nn::Model> model, const std::string& folder) {
  return model ? std::make_shared<FolderModel>(std::move(model), folder) : model;
}

}  // namespace capstan::job
