#include <capstan/base/counted.h>
#include <capstan/base/text.h>

#include <ATen/ATen.h>

#include "job/job.h"

namespace capstan::job {
namespace {

template <class Interface>
config::ResolvedTable table_of(const Made<Interface>& made, const std::vector<config::Resolved>& host_options = {}) {
  config::ResolvedTable table{made.table, made.host, host_options};
  table.options.insert(table.options.end(), made.options.begin(), made.options.end());
  return table;
}

// Which ranks share a node, and with it its host memory and its copy in hybrid_shard.
std::string nodes_text(std::int64_t ranks, std::int64_t ranks_per_node) {
  if (ranks == 1) return {};
  const auto nodes = (ranks + ranks_per_node - 1) / ranks_per_node;
  return cat(counted(ranks, "rank"), " on ", counted(nodes, "node"),
             nodes == 1 ? "" : cat(", ", ranks_per_node, " on each"), "\n");
}

// Lines that follow one another and are alike up to a colon, as the one for each layer with an adapter: the first, and
// how many more there are.
std::string grouped(const std::string& lines) {
  std::vector<std::pair<std::string, int>> groups;
  for (const auto& line : split(lines, '\n')) {
    const auto begin = line.substr(0, line.find(':') + 1);
    if (!begin.empty() && !groups.empty() && groups.back().first.starts_with(begin)) {
      ++groups.back().second;
    } else if (!line.empty()) {
      groups.emplace_back(line, 0);
    }
  }
  std::string text;
  for (const auto& [line, more] : groups) text += cat(line, more > 0 ? cat(" and ", more, " more") : "", "\n");
  return text;
}

// Which layers a GPU computes without a fused kernel, and why.
std::string slow_attention(const Job& job) {
  if (job.config.device != "cuda") return {};
  const auto compute = precision_of(job.config.train->precision, device_of(job.config)).compute;
  const auto like = at::empty({1}, at::TensorOptions(compute).device(at::kMeta));
  return nn::attention_text(job.model->units,
                            {like, job.samples.length, job.config.trains(), job.plugins.data_parts.options->packing});
}

}  // namespace

std::vector<config::ResolvedTable> Job::tables() const {
  auto data_options = plugins.data_parts.options;
  if (samples.tokenizer.object) data_options.derive(&setup::DataOptions::tokenizer, samples.tokenizer.name);
  auto checkpoint = config.checkpoint;
  checkpoint.derive(&setup::CheckpointOptions::save, settled_save(config, plugins, *model));
  const auto train = config.trains() ? settled(config.train, topology.batch) : config.train;
  std::vector<config::ResolvedTable> tables;
  tables.push_back({"run", {}, config.run.resolved()});
  tables.push_back(table_of(plugins.data.value_or(Made<data::Data>{}), data_options.resolved()));
  for (const auto& source : plugins.data_parts.sources) {
    auto own = source.options.resolved();
    std::erase_if(own, [](const auto& option) { return option.spec.key == "plugin"; });  // the host's entries say it
    tables.push_back(table_of(source.made, own));
  }
  if (plugins.tokenizer) tables.push_back(table_of(*plugins.tokenizer));
  tables.push_back(table_of(*plugins.model, plugins.model_options.resolved()));
  for (const auto& made : plugins.strategies) tables.push_back(table_of(made));
  tables.push_back(table_of(*plugins.optimizer, config.optimizer.resolved()));
  for (const auto& group : plugins.optimizer_groups) {
    tables.push_back({group.table, {}, group.options.resolved()});
    auto& options = tables.back().options;
    if (group.rule) options.insert(options.end(), group.rule->options.begin(), group.rule->options.end());
  }
  tables.push_back(table_of(*plugins.objective));
  tables.push_back({"train", {}, train.resolved()});
  tables.push_back({"checkpoint", {}, checkpoint.resolved()});
  tables.push_back({"comm", {}, config.comm.resolved()});
  for (const auto& made : plugins.extensions) tables.push_back(table_of(made));
  for (const auto& made : plugins.monitors) tables.push_back(table_of(made));
  return tables;
}

std::string Job::text() const {
  std::vector<std::vector<std::string>> rows{{"option", "value", "from"}};
  for (const auto& table : tables()) {
    rows.push_back({"[" + table.path + "]", "", ""});
    for (const auto& entry : table.host)
      rows.push_back({"  " + entry.key, config::value_text(entry.value), entry.origin.text()});
    for (const auto& option : table.options)
      rows.push_back({"  " + option.spec.key, config::value_text(option.value), option.origin.text()});
  }
  return table_text(rows) + "\n" + arithmetic();
}

std::string Job::model_summary(bool brief) const {
  const auto& made = *plugins.model;
  const auto parameters = cat("model ", made.name, ": ", model->built.text(), "\n");
  const auto attention = slow_attention(*this);
  if (brief) return parameters + attention + grouped(model->changes);
  const auto flops = static_cast<std::int64_t>(made.object->flops_per_token(samples.length));
  return cat(parameters, thousands(flops), " floating-point operations a token, forward and backward, at ",
             thousands(samples.length), " tokens\n", attention, model->changes);
}

std::string Job::ranks_summary(bool brief) const {
  const auto& [mesh, rank, ranks_per_node, batch, policy, gathers_once, takes_mean_load] = topology;
  const bool only_data = mesh.size(layout::Axis::dp) == mesh.world_size();
  auto text = brief && only_data ? std::string() : cat(mesh.arithmetic(), " on ", config.device, "\n");
  if (!brief || mesh.world_size() > ranks_per_node) text += nodes_text(mesh.world_size(), ranks_per_node);
  if (!mesh.left_over().empty()) text += mesh.left_over() + "\n";
  const bool in_vain = config.trains() && config.train->regather == "step";
  text += config.request.settled.note +
          (gathers_once ? "sharded parameters are gathered once a step; how backward gathers has no effect\n"
           : in_vain    ? "note: train.regather has no effect: nothing shards parameters\n"
                        : "");
  return text + cat("global batch ", batch.global_batch, " = micro-batch ", batch.micro_batch, " x accumulation ",
                    batch.accumulation, " x data-parallel size ", batch.data_parallel_size, "\n");
}

std::string Job::lacking() const {
  if (samples.lacking.empty()) return {};
  auto text = cat("not there yet, and a run needs it: ", join(samples.lacking), "\n");
  if (const auto& stand_in = plugins.stand_in)
    text += cat("note: the sizes of preset \"", stand_in->preset, "\" stand in for ", stand_in->named, "\n");
  text += cat("note: samples were taken to be ", thousands(samples.length), " tokens long\n");
  return text;
}

std::string Job::memory_summary() const {
  const auto& made = prediction;
  std::string text;
  if (!made.footprints.empty()) {
    text = cat("memory of a rank, with", made.activations ? "" : "out", " activations:\n",
               layout::footprint_table(made.footprints, made.peaks));
  }
  for (const auto& note : {made.stages_note, made.activations_note, made.state_note})
    text += note.empty() ? "" : note + "\n";
  return text;
}

std::string Job::arithmetic() const {
  const auto& plan = samples.plan;
  auto text = model_summary() + ranks_summary();
  if (samples.train) {
    text += cat(thousands(plan.samples), plural(plan.samples, " training sample, ", " training samples, "),
                thousands(plan.steps_per_epoch), plural(plan.steps_per_epoch, " step an epoch, ", " steps an epoch, "),
                thousands(plan.steps), plural(plan.steps, " step in all\n", " steps in all\n"));
  }
  text += samples.notes;
  text += memory_summary();
  if (plugins.model_facts.attention_dropout) {
    text +=
        "note: dropout inside attention takes the unfused, slower path (set the model's attention_dropout = 0 for the "
        "fused one)\n";
  }
  return text;
}

}  // namespace capstan::job
