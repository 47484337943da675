#include "my_plugin.h"

#include <ATen/ATen.h>

namespace my_plugin_plugin {

void MyPluginOptions::describe(capstan::config::OptionTable<MyPluginOptions>& t) {
  t.add("power", &MyPluginOptions::power)
      .min(0)
      .max(1)
      .doc("a sequence's sum is divided by this power of its tokens: 1 for the mean, 0 for the sum");
}

capstan::objective::Plan MyPlugin::plan() const {
  capstan::objective::Plan plan;
  plan.passes = {{"model", capstan::nn::HeadOutput::log_probabilities}};
  plan.counts = {"sequences"};
  plan.terms = {{}};
  plan.figures = {{"likelihood"}};
  return plan;
}

std::vector<double> MyPlugin::counts(const capstan::data::HostBatch& batch) const {
  return {static_cast<double>(batch.real_samples * batch.per_sample)};
}

capstan::objective::Sums MyPlugin::sums(const std::vector<at::Tensor>& outputs, const capstan::nn::Batch& batch) const {
  const auto& log_p = outputs.front();  // of each label; 0 at positions that have none
  auto labels = batch.labels.flatten();
  if (batch.loss_rows.defined()) labels = labels.index_select(0, batch.loss_rows);
  const auto is_label = labels.ne(capstan::data::ignored_label).to(log_p.scalar_type());
  const auto tokens = batch.sum_by_sequence(is_label).clamp_min(1);
  // Ranks that share a sample's tokens have the same sums of its sequences: one of them adds these.
  const auto adds = batch.has_sample().repeat_interleave(batch.samples.per_sample).to(log_p.scalar_type());
  const auto of_sequences = batch.sum_by_sequence(log_p) / tokens.pow(options_->power) * adds;
  const auto likelihood = (batch.sum_by_sequence(log_p.detach().exp() * is_label) / tokens * adds).sum();
  return {{of_sequences.sum().neg()}, {likelihood}};
}

}  // namespace my_plugin_plugin

CAPSTAN_OBJECTIVE("my_plugin", "0.1.0", "the next token's cross entropy, each sample's mean counting alike",
                  my_plugin_plugin::MyPlugin, my_plugin_plugin::MyPluginOptions)
