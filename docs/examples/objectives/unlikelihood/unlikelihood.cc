// Unlikelihood (Welleck et al. 2019): tokens of good samples are to be likely, those of bad ones unlikely.
#include <ATen/ATen.h>
#include <capstan/objective.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>
#include <vector>

namespace {

using namespace capstan;

struct UnlikelihoodOptions {
  double alpha = 1;
  static void describe(config::OptionTable<UnlikelihoodOptions>& t) {
    t.add("alpha", &UnlikelihoodOptions::alpha).above(0).doc("the weight of bad samples' tokens");
  }
};

class Unlikelihood : public objective::Objective {
 public:
  explicit Unlikelihood(config::Options<UnlikelihoodOptions> options) : options_(std::move(options)) {}

  objective::Plan plan() const override {
    objective::Plan plan;
    plan.passes = {{"model", nn::HeadOutput::log_probabilities}};
    plan.counts = {"target tokens", "good sequences", "bad sequences"};
    plan.terms = {{}, {options_->alpha}};
    plan.figures = {{"likelihood_good", 1}, {"likelihood_bad", 2}};
    plan.fields = {{"good", data::FieldSpec::Type::float32, data::FieldSpec::Per::sequence}};
    return plan;
  }

  std::vector<double> counts(const data::HostBatch& batch) const override {
    const auto field = std::find_if(batch.fields.begin(), batch.fields.end(),
                                    [](const data::HostField& one) { return one.spec.name == "good"; });
    const auto& values = std::get<std::vector<float>>(field->values);  // 0 in empty places
    const auto good = std::accumulate(values.begin(), values.end(), 0.0);
    const auto all = static_cast<double>(batch.real_samples * batch.per_sample);
    return {static_cast<double>(batch.target_tokens), good, all - good};
  }

  objective::Sums sums(const std::vector<at::Tensor>& outputs, const nn::Batch& batch) const override {
    const auto& log_p = outputs.front();
    auto labels = batch.labels.flatten();
    if (batch.loss_rows.defined()) labels = labels.index_select(0, batch.loss_rows);
    const auto is_label = labels.ne(data::ignored_label).to(log_p.scalar_type());
    const auto good = batch.field("good").to(log_p.scalar_type());
    const auto good_token = good.index_select(0, batch.label_sequences()) * is_label;
    const auto log_not_p = at::log(-at::expm1(log_p.clamp_max(-1e-6)));
    const auto likely = -(good_token * log_p).sum(), unlikely = -((is_label - good_token) * log_not_p).sum();
    // A sequence's sums are the same on all ranks that share it: one of them gives the figure.
    const auto tokens = batch.sum_by_sequence(is_label).clamp_min(1);
    const auto real = batch.has_sample().to(log_p.scalar_type()).repeat_interleave(batch.samples.per_sample);
    const auto mean = batch.sum_by_sequence(log_p.detach().exp() * is_label) / tokens * real;
    return {{likely, unlikely}, {(mean * good).sum(), (mean * (1 - good)).sum()}};
  }

 private:
  config::Options<UnlikelihoodOptions> options_;
};

}  // namespace

CAPSTAN_OBJECTIVE("unlikelihood", "0.1.0", "tokens of good samples likely, those of bad ones unlikely", Unlikelihood,
                  UnlikelihoodOptions)
