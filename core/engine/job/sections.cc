#include "job/sections.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <optional>

#include "record/fingerprint.h"

namespace capstan::job {

std::map<std::string, std::string> frozen_folders(const Job& job) {
  std::map<std::string, std::string> folders;
  const auto add = [&](const std::string& option, const std::optional<std::string>& folder) {
    if (folder && !folders.contains(option)) folders[option] = record::fingerprint(*folder);
  };
  if (job.plugins.stand_in) return {};  // files are not there yet
  for (const auto& frozen : job.frozen)
    add(frozen.plugin.is_start ? "model.path" : frozen.plugin.model.table, frozen.plugin.folder);
  if (job.model->has_frozen && settled_save(job.config, job.plugins, *job.model) == "trainable")
    add("model.path", job.plugins.model_options->path);
  return folders;
}

// One of the layout owns how parameters are kept, an axis of the mesh or what is computed again.
bool is_of_layout(const strategy::Strategy& strategy) {
  strategy::Claims claims;
  strategy.claim(claims);
  const auto& list = claims.exclusive_claims();
  return std::any_of(list.begin(), list.end(), [](const std::string& resource) {
    return resource == strategy::step_program_point || resource == "parameter storage" ||
           resource == "unit recompute" || resource.starts_with("axis ");
  });
}

std::map<std::string, std::string> change_sections(const Job& job) {
  std::map<std::string, std::string> all;
  if (const auto& content = job.samples.content) {
    all[sections::data] =
        Json{{"samples", content->samples}, {"files", content->files}, {"more", content->more}}.dump();
  }
  if (!job.folders.empty()) all[sections::folders] = Json(job.folders).dump();
  auto strategies = Json::array();
  for (const auto& made : job.plugins.strategies) {
    if (!is_of_layout(*made.object)) strategies.push_back(made.name);
  }
  all[sections::strategies] = strategies.dump();
  return all;
}

std::vector<const nn::Adapter*> adapters_of(const std::vector<nn::Unit*>& units) {
  std::vector<const nn::Adapter*> adapters;
  for (const auto* unit : units) {
    for (const auto& adapter : unit->adapters()) adapters.push_back(&adapter);
  }
  return adapters;
}

Json scale_of(const nn::Adapter& adapter) {
  return {{"alpha", adapter.alpha}, {"rank_stabilised", adapter.rank_stabilised}};
}

std::string adapters_section(const std::vector<nn::Unit*>& units) {
  Json json;
  for (const auto* adapter : adapters_of(units)) json[adapter->module] = scale_of(*adapter);
  return json.is_null() ? std::string() : json.dump();
}

std::string cursor_section(const Job& job, std::int64_t steps_done) {
  CAPSTAN_ASSERT(job.config.trains());  // another job has no step plan
  const auto& plan = job.samples.plan;
  const auto epoch = plan.epoch_of(steps_done);
  const Json json{{"epoch", epoch},
                  {"samples_in_epoch", plan.consumed(steps_done) - plan.consumed(epoch * plan.steps_per_epoch)},
                  {"consumed_samples", plan.consumed(steps_done)},
                  {"samples", plan.order ? job.samples.train->size() : plan.samples},
                  {"global_batch", plan.global_batch},
                  {"seed", plan.seed},
                  {"shuffle", plan.shuffle},
                  {"drop_last", job.config.train->drop_last}};
  return json.dump();
}

}  // namespace capstan::job
