#include "options.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <vector>

namespace dpo {

using namespace capstan;

namespace {

Loss loss_of(const std::string& name) {
  return name == "ipo" ? Loss::ipo : name == "orpo" ? Loss::orpo : name == "simpo" ? Loss::simpo : Loss::sigmoid;
}

template <class M>
void only_in(const std::vector<std::string>& losses, M DpoOptions::*member, const config::Options<DpoOptions>& options,
             Diagnostics& diagnostics) {
  const bool is_used = std::find(losses.begin(), losses.end(), options->loss) != losses.end();
  // A run's own config.toml sets every option, mostly to its default.
  if (is_used || !options.is_set(member) || (*options).*member == DpoOptions().*member) return;
  diagnostics.add(options.where(member),
                  cat(options.name(member), " is set, and loss \"", options->loss, "\" does not use it"),
                  cat("remove it, or choose loss = ", join(losses, " or ")));
}

}  // namespace

void DpoOptions::describe(config::OptionTable<DpoOptions>& t) {
  t.add("loss", &DpoOptions::loss)
      .choices({"sigmoid", "ipo", "orpo", "simpo"})
      .doc(
          "sigmoid: DPO's own; ipo: a squared distance; orpo: odds and the likelihood of the chosen answer; simpo: "
          "mean log-probabilities and a margin. The last two need no reference");
  t.add("reference", &DpoOptions::reference)
      .doc(
          "what sigmoid and ipo compare an answer's log-probability with. base: that of the model without its "
          "adapters, where nothing else is trained; start: that of the model as the run began, which is a second one "
          "in memory; data: the data's field reference_log_probability, a number a sequence; else a model's folder or "
          "hub id");
  t.add("beta", &DpoOptions::beta)
      .above(0)
      .doc("how much a difference of log-probabilities counts: 0.1 in sigmoid and ipo, 2 in simpo; not in orpo");
  t.add("label_smoothing", &DpoOptions::label_smoothing)
      .min(0)
      .max(0.5)
      .doc("the share of pairs whose answers are the wrong way round, in sigmoid and simpo");
  t.add("gamma", &DpoOptions::gamma).min(0).doc("simpo's margin between the rewards");
  t.add("lambda", &DpoOptions::lambda).above(0).doc("the weight of orpo's odds next to the chosen answer's likelihood");
  t.add("per_token", &DpoOptions::per_token)
      .doc("ipo: log-probabilities are divided by the answer's tokens, so that beta means the same at any length");
}

Preference preference_of(const config::Options<DpoOptions>& options, Diagnostics& diagnostics) {
  only_in({"sigmoid", "ipo"}, &DpoOptions::reference, options, diagnostics);
  only_in({"sigmoid", "ipo", "simpo"}, &DpoOptions::beta, options, diagnostics);
  only_in({"sigmoid", "simpo"}, &DpoOptions::label_smoothing, options, diagnostics);
  only_in({"simpo"}, &DpoOptions::gamma, options, diagnostics);
  only_in({"orpo"}, &DpoOptions::lambda, options, diagnostics);
  only_in({"ipo"}, &DpoOptions::per_token, options, diagnostics);
  Preference preference;
  preference.loss = loss_of(options->loss);
  preference.beta = options->beta.value_or(preference.loss == Loss::simpo ? 2.0 : 0.1);
  preference.label_smoothing = options->label_smoothing;
  preference.gamma = options->gamma;
  preference.lambda = options->lambda;
  preference.per_token = options->per_token;
  return preference;
}

}  // namespace dpo
