#include "resume/check.h"

#include <capstan/base/json.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "job/assemble.h"
#include "job/sections.h"
#include "resume/adapters.h"
#include "resume/changes.h"

namespace capstan::resume {
namespace {

// A few names, and how many there are besides.
std::string names_text(const std::vector<std::string>& names) {
  constexpr std::size_t most = 6;
  std::vector<std::string> first;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) first.push_back(cat("'", names[i], "'"));
  return join(first) + (names.size() > most ? cat(" and ", names.size() - most, " more") : "");
}

// The names of records after "optimizer/<state>/".
std::set<std::string> records_with_state(const checkpoint::Reader& reader) {
  const std::string kind = "optimizer/";
  std::set<std::string> names;
  for (const auto& tensor : reader.tensors(kind)) {
    const auto slash = tensor.find('/', kind.size());
    if (slash != std::string::npos) names.insert(tensor.substr(slash + 1));
  }
  return names;
}

void check_records(const job::Job& job, const checkpoint::Reader& reader, const std::vector<nn::Unit*>& units,
                   Diagnostics& diagnostics) {
  const auto where = reader.path().string();
  const auto with_state = records_with_state(reader);
  const auto of_other_rank = check_adapters(reader, units, diagnostics);
  std::vector<std::string> missing;
  std::vector<std::string> stateless;
  std::set<std::string> known;
  for (const auto* record : job::records_of(units)) {
    const auto tensor = job::saved_name("model", record->name, 0);
    known.insert(tensor);
    if (!reader.has(tensor)) {
      if (record->trainable) missing.push_back(record->name);
      continue;
    }
    if (reader.shape(tensor) != record->shape && !of_other_rank.contains(record->name)) {
      diagnostics.add(where,
                      cat("record '", record->name, "' has shape ", layout::shape_text(reader.shape(tensor)),
                          ", the model's is ", layout::shape_text(record->shape)),
                      "continue with the model that was saved");
    }
    const bool keeps_state = record->trainable && !job.model->optimizer->of(*record).rule->states(*record).empty();
    if (keeps_state && !with_state.contains(record->name)) stateless.push_back(record->name);
  }
  std::vector<std::string> foreign;
  for (const auto& tensor : reader.tensors("model/")) {
    if (!known.contains(tensor)) foreign.push_back(tensor.substr(std::string("model/").size()));
  }
  const char* fix = "continue with the model that was saved";
  if (!missing.empty()) diagnostics.add(where, cat("it has no record ", names_text(missing)), fix);
  if (!foreign.empty()) {
    diagnostics.add(where, cat("it has the record ", names_text(foreign), ", which the model has not"), fix);
  }
  // An optimizer may keep nothing at all.
  if (!with_state.empty() && !stateless.empty()) {
    diagnostics.add(where, cat("it has no optimizer state of ", names_text(stateless)),
                    "train the same parameters as the run that was saved");
  }
}

// The same samples follow only where all of this is as it was.
void check_cursor(const job::Job& job, const checkpoint::Reader& reader, Diagnostics& diagnostics) {
  const auto saved = Json::parse(reader.section("cursor"));  // the manifest was JSON
  const auto mine = Json::parse(job::cursor_section(job, reader.meta().step));
  const std::vector<std::pair<const char*, std::string>> compared{
      {"samples", job.plugins.data->where},
      {"global_batch", job.config.train.where(&setup::TrainOptions::global_batch)},
      {"seed", job.config.run.where(&setup::RunOptions::seed)},
      {"shuffle", job.config.train.where(&setup::TrainOptions::shuffle)},
      {"drop_last", job.config.train.where(&setup::TrainOptions::drop_last)}};
  for (const auto& [key, where] : compared) {
    const auto theirs = saved.contains(key) ? saved.at(key) : Json();
    if (theirs == mine.at(key)) continue;
    const std::string what = key == std::string("samples") ? "the number of training samples" : key;
    diagnostics.add(where,
                    cat(what, " is ", mine.at(key).dump(), ", but ", theirs.dump(), " in the checkpoint ",
                        reader.path().string(), ": other batches would follow than in the run that was saved"),
                    cat("set it to ", theirs.dump(), ", or start a new run"));
  }
  if (reader.meta().step > job.samples.plan.steps) {
    diagnostics.add(job.config.train.where(job.config.train->max_steps ? &setup::TrainOptions::max_steps
                                                                       : &setup::TrainOptions::epochs),
                    cat("the run has ", job.samples.plan.steps, " steps, and the checkpoint ", reader.path().string(),
                        " is after step ", reader.meta().step),
                    "make the run longer, or continue from an earlier checkpoint");
  }
}

}  // namespace

void check_resume(const job::Job& job, const checkpoint::Reader& reader, const std::vector<nn::Unit*>& units,
                  Diagnostics& diagnostics) {
  check_records(job, reader, units, diagnostics);
  for (const auto& change : changes_since(job, reader)) {
    if (!job::is_accepted(*job.config.checkpoint, change.name)) diagnostics.add(change.refusal);
  }
  if (reader.has_section("cursor")) return check_cursor(job, reader, diagnostics);
  diagnostics.add(reader.path().string(), "it holds weights without the optimizer's state",
                  "a run continues from a checkpoint; to start from weights, set model.path to a model's folder");
}

}  // namespace capstan::resume
