#include "job/head_outputs.h"

#include <capstan/base/text.h>

#include <string>

namespace capstan::job {
namespace {

using nn::HeadOutput;

const char* words_of(HeadOutput output) {
  switch (output) {
    case HeadOutput::loss_sum:
      return "a loss";
    case HeadOutput::log_probabilities:
      return "the labels' log-probabilities";
    case HeadOutput::last_logits:
      return "logits";
    case HeadOutput::states:
      return "the states that its matrix is multiplied with";
    case HeadOutput::function:
      return "what a function of the objective's makes of its states and matrix";
    case HeadOutput::values:
      return "values";
  }
  assertion_failed("an output of a head", __FILE__, __LINE__);
}

std::string text(const nn::ModelFacts& facts) {
  std::vector<std::string> words;
  for (const auto output : facts.outputs) words.emplace_back(words_of(output));
  return words.empty() ? "nothing" : join(words);
}

// The pass's model, by its plugin.
struct Computing {
  const Made<nn::Model>& model;
  const nn::ModelFacts& facts;
};

void judge(const objective::PassSpec& pass, const Computing& by, const Made<objective::Objective>& objective,
           Diagnostics& faults) {
  if (by.facts.gives(pass.output)) return;
  const bool wants_values = pass.output == HeadOutput::values;
  faults.add(objective.where,
             cat("the objective '", objective.name, "' asks for ", words_of(pass.output), " in its pass '", pass.name,
                 "', and the head of the model plugin '", by.model.name, "' gives ", text(by.facts)),
             wants_values ? "give the model a head of values (head_values, where it has this option), or take another "
                            "objective"
                          : "take a model whose head gives that (an nn::VocabularyHead does), or another objective");
}

void judge_answers(const setup::Configuration& config, const Plugins& plugins, Diagnostics& faults) {
  const auto& train = config.train;
  const auto refuse = [&](const std::string& where, const std::string& what, const std::string& fix) {
    faults.add(where,
               cat(what, " answers, and the head of the model plugin '", plugins.model->name, "' gives ",
                   text(plugins.model_facts), ", no logits"),
               fix);
  };
  if (config.request.purpose == setup::Purpose::generate)
    return refuse(plugins.model->where, "the command generates", "name a model with a head of words");
  if (!config.trains()) return;
  for (const auto member : {&setup::TrainOptions::generate_samples, &setup::TrainOptions::generate_train_samples}) {
    if ((*train).*member == 0) continue;
    refuse(train.where(member), cat(train.name(member), " = ", (*train).*member, " asks for"),
           cat("set ", train.name(member), " = 0"));
  }
}

}  // namespace

void check_outputs(const setup::Configuration& config, const Plugins& plugins, const std::vector<FrozenPlugin>& others,
                   Diagnostics& faults) {
  if (!plugins.model) return;
  if (!plugins.model_facts.gives(HeadOutput::last_logits)) judge_answers(config, plugins, faults);
  if (config.request.purpose == setup::Purpose::generate || !plugins.minimised) return;
  const auto& plan = plugins.minimised->plan();
  for (const auto& pass : plan.passes) {
    if (!pass.model) {
      judge(pass, {*plugins.model, plugins.model_facts}, *plugins.objective, faults);
    } else if (others.size() == plan.models.size()) {  // else one of them has been refused
      const auto& other = others.at(*pass.model);
      judge(pass, {other.model, other.facts}, *plugins.objective, faults);
    }
  }
}

}  // namespace capstan::job
