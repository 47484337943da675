#include "job/objective.h"

#include <capstan/base/counted.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <set>
#include <string>

namespace capstan::job {
namespace {

std::string text(const data::FieldSpec& field) {
  using Per = data::FieldSpec::Per;
  const auto* type = field.type == data::FieldSpec::Type::float32 ? "float32" : "int64";
  const auto* per = field.per == Per::token ? "token" : field.per == Per::sequence ? "sequence" : "sample";
  return cat("'", field.name, "' (", type, ", one a ", per, ")");
}

// One that says no meaning is taken to tell sequences apart if it asks for their number or for a value of each.
void check_sequences(const Plugins& plugins, Diagnostics& faults) {
  const auto& made = *plugins.objective;
  const auto& source = *plugins.data;
  const auto plan = plugins.minimised->plan();
  const auto& form = plugins.data_parts.form;
  const bool has_field = std::any_of(plan.fields.begin(), plan.fields.end(),
                                     [](const auto& field) { return field.per == data::FieldSpec::Per::sequence; });
  const bool tells_apart = plan.meaning.empty() ? plan.sequences != 0 || has_field : plan.meaning == form.meaning;
  if (plan.sequences != 0 && plan.sequences != form.sequences) {
    faults.add(made.where,
               cat("the objective '", made.name, "' needs samples of ", counted(plan.sequences, "sequence"),
                   ", those of the data plugin '", source.name, "' have ", form.sequences),
               "take data of that form, or another objective");
  } else if (!form.meaning.empty() && !tells_apart) {
    faults.add(source.where,
               cat("a sample of the data plugin '", source.name, "' is ", form.meaning, ", and the objective '",
                   made.name, "' would learn ", plan.meaning.empty() ? "all of it alike" : "it as " + plan.meaning),
               "set [objective] plugin to one that compares them, or take out what asks for such samples (data.pairs, "
               "data.labels)");
  }
}

void check_fields(const Plugins& plugins, Diagnostics& faults) {
  const auto& made = *plugins.objective;
  const auto& declared = plugins.data_parts.form.fields;
  for (const auto& field : plugins.minimised->plan().fields) {
    if (std::find(declared.begin(), declared.end(), field) != declared.end()) continue;
    std::vector<std::string> names;
    for (const auto& one : declared) names.push_back(text(one));
    faults.add(made.where,
               cat("the objective '", made.name, "' needs the field ", text(field), ", which the data plugin '",
                   plugins.data->name, "' does not give", names.empty() ? "" : cat("; it gives ", join(names))),
               "take data that have it, or another objective");
  }
}

void check_base(const Plugins& plugins, const std::vector<std::unique_ptr<nn::Unit>>& units, Diagnostics& faults) {
  constexpr std::size_t shown = 3;
  std::set<const nn::Weight*> added;
  std::vector<std::string> others;
  for (const auto& unit : units) {
    for (const auto& adapter : unit->adapters()) added.insert({adapter.down.get(), adapter.up.get()});
    for (const auto& weight : unit->weights()) {
      if (added.contains(weight.get())) continue;
      for (const auto& record : weight->records()) {
        if (record.trainable) others.push_back(record.name);
      }
    }
  }
  const auto& made = *plugins.objective;
  const auto* const need = "compares with the base model, that is the model without adapters";
  if (others.empty() && !added.empty()) return;
  if (added.empty()) {
    faults.add(made.where, cat("the objective '", made.name, "' ", need, ", and there are no adapters"),
               "take a strategy that adds adapters, or choose another reference");
    return;
  }
  const auto count = others.size();
  others.resize(std::min(count, shown));
  faults.add(made.where,
             cat("the objective '", made.name, "' ", need, ", but ", counted(count, "other parameter"),
                 plural(static_cast<std::int64_t>(count), " is trained: ", " are trained: "), join(others)),
             "train nothing but adapters, or choose another reference");
}

}  // namespace

void settle_objective(Plugins& plugins, Diagnostics& faults) {
  const auto& made = *plugins.objective;
  plugin::guard(made.name, "check", [&] { made.object->check(faults); });
  if (plugins.data) plugin::guard(made.name, "data_form", [&] { made.object->data_form(plugins.data_parts.form); });
  plugins.minimised = std::make_shared<const strategy::Objective>(made.name, made.object);
  if (!plugins.data) return;
  check_sequences(plugins, faults);
  check_fields(plugins, faults);
}

void check_passes(const Plugins& plugins, const Topology& topology, const std::vector<std::unique_ptr<nn::Unit>>& units,
                  Diagnostics& faults) {
  const auto& made = *plugins.objective;
  const auto plan = plugins.minimised->plan();
  const auto pp = topology.mesh.size(layout::Axis::pp);
  if (pp > 1 && !plan.models.empty()) {
    faults.add(made.where,
               cat("the objective '", made.name, "' compares with another model ('", plan.models.front().name,
                   "'), and a mesh with pp ", pp, " cuts only the trained model into stages"),
               "use a mesh without stages, or an objective without another model");
  }
  const auto& trained = plan.passes[plugins.minimised->trained()];
  if (pp > 1 && plan.models.empty() && plan.passes.size() > 1 && trained.output == nn::HeadOutput::function) {
    faults.add(made.where,
               cat("the objective '", made.name, "' compares its pass '", trained.name,
                   "' with another pass in the model's head, and a mesh with pp ", pp, " cuts the model into stages"),
               "use a mesh without stages, or an objective that compares what passes give");
  }
  if (plugins.minimised->needs_base()) check_base(plugins, units, faults);
}

}  // namespace capstan::job
