// The cross entropy of the next token, as a mean over all tokens that bear loss.
#include <capstan/objective.h>

#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

namespace {

using namespace capstan;

struct CausalOptions {
  static void describe(config::OptionTable<CausalOptions>& /*t*/) {}
};

class CausalLm final : public objective::Objective {
 public:
  explicit CausalLm(const config::Options<CausalOptions>& /*options*/) {}
  // One source has the whole loss.
  void data_form(const data::SampleForm& form) override {
    if (form.sources.size() > 1) sources_ = form.sources;
  }
  objective::Plan plan() const override {
    objective::Plan plan;
    plan.passes = {{"model"}};
    plan.counts = {"target tokens"};
    plan.terms = {{}};
    if (sources_.empty()) return plan;
    plan.passes.front().output = nn::HeadOutput::log_probabilities;
    for (const auto& source : sources_) {
      plan.figures.push_back({"loss_" + source, plan.counts.size(), objective::Better::lower});
      plan.counts.push_back("target tokens of " + source);
    }
    return plan;
  }
  std::vector<double> counts(const data::HostBatch& batch) const override {
    std::vector<double> counts{static_cast<double>(batch.target_tokens)};
    if (sources_.empty()) return counts;
    const auto by_source = data::tokens_by_source(batch, sources_.size()).target;
    counts.insert(counts.end(), by_source.begin(), by_source.end());
    return counts;
  }
  objective::Sums sums(const std::vector<at::Tensor>& outputs, const nn::Batch& batch) const override {
    if (sources_.empty()) return {{outputs.front()}, {}};
    const auto losses = outputs.front().to(at::kDouble).neg();
    return {{losses.sum()}, by_source(losses.detach(), batch)};
  }

 private:
  // The sum over each source's samples.
  std::vector<at::Tensor> by_source(const at::Tensor& losses, const nn::Batch& batch) const {
    const auto& samples = batch.samples;
    const auto of_sample = batch.sum_by_sequence(losses).view({samples.count, samples.per_sample}).sum(1);
    const auto given = of_sample * batch.has_sample();
    const auto& source = batch.field(data::source_field);
    std::vector<at::Tensor> sums;
    for (std::size_t i = 0; i < sources_.size(); ++i)
      sums.push_back((given * source.eq(static_cast<std::int64_t>(i))).sum());
    return sums;
  }

  std::vector<std::string> sources_;
};

}  // namespace

CAPSTAN_OBJECTIVE("causal_lm", "1.0", "the next token's cross entropy, a mean over the tokens that bear loss", CausalLm,
                  CausalOptions)
