#include "cells.h"

#include <capstan/base/counted.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>

namespace report {

using namespace capstan;
using namespace runs;

namespace {

Cell number_cell(const std::optional<double>& number, int decimals, const char* why) {
  return number ? cell(fixed(*number, decimals)) : no_cell(why);
}

Cell percent_cell(const std::optional<double>& share, const char* why) {
  return share ? cell(fixed(*share * 100, 1)) : no_cell(why);
}

const char* not_ended(const Run& run) {
  return run.has_summary ? "summary.json does not have it" : "the run has not ended: it has no summary.json";
}

std::optional<double> ratio(const std::optional<double>& number, const std::optional<double>& by) {
  if (!number || !by || *by <= 0) return {};
  return *number / *by;
}

std::optional<double> runtime_s(const Run& run) { return run.number("runtime_s"); }

constexpr const char* no_loss = "the run was not evaluated there";

Cell eval_loss(const Run& run, long epoch) {
  for (const auto& evaluation : run.evaluations) {
    if (evaluation.split == "eval" && evaluation.loss && std::lround(evaluation.epoch) == epoch)
      return cell(fixed(*evaluation.loss, 4));
  }
  return no_cell(no_loss);
}

const EvaluationLine* last_with(const Run& run, const std::string& score) {
  const auto found =
      std::find_if(run.evaluations.rbegin(), run.evaluations.rend(), [&](const EvaluationLine& evaluation) {
        return evaluation.split == "eval" && evaluation.scores.contains(score);
      });
  return found == run.evaluations.rend() ? nullptr : &*found;
}

constexpr const char* no_answer = "no question was answered: train.generate_samples = -1 answers all at the end";

Cell every_score_cell(const Run& run, const std::string& score) {
  std::vector<std::string> texts;
  for (const auto& evaluation : run.evaluations) {
    if (evaluation.split == "eval" && evaluation.scores.contains(score))
      texts.push_back(fixed(evaluation.scores.at(score), 2));
  }
  return texts.empty() ? no_cell(no_answer) : cell(join(texts));
}

Cell score_cell(const Run& run, const std::string& score) {
  const auto* evaluation = last_with(run, score);
  if (!evaluation) return no_cell(no_answer);
  return cell(fixed(evaluation->scores.at(score), 2));
}

constexpr double mib_of_gib = 1024;
constexpr double bytes_of_gib = 1024.0 * 1024 * 1024;

std::string no_gpu_log(const Run& run) {
  if (run.on_cpus()) return "the run computed on CPUs";
  return "the run has no gpu_memory/*.csv: [monitor.memory_log] writes it, or nvidia-smi during the run";
}

constexpr const char* no_cpu_log =
    "the run has no cpu_memory/*.txt: [monitor.memory_log] writes it, or psrecord during the run";

std::string no_utilisation(const Run& run) {
  if (run.on_cpus()) return "the run computed on CPUs";
  return "summary.json has no such mean: [monitor.utilisation] writes it";
}

std::optional<MemoryUse> gpu_use(const Run& run) {
  const auto* samples = run.gpu0();
  if (!samples || samples->empty()) return {};
  return memory_use(*samples);
}

Cell gpu_cell(const Run& run, double MemoryUse::*member, double per, int decimals) {
  const auto use = gpu_use(run);
  return use ? cell(fixed((*use).*member / per, decimals)) : no_cell(no_gpu_log(run));
}

Cell cpu_cell(const Run& run, double MemoryUse::*member, int decimals) {
  const auto* log = run.cpu();
  return log ? cell(fixed(memory_use(log->real_mb).*member, decimals)) : no_cell(no_cpu_log);
}

// `why`: there is no peak above 0.
Cell peak_gb_cell(const std::vector<double>& peaks, const char* why) {
  if (peaks.empty()) return no_cell("the run has not ended: it has no summary.json");
  const double most = *std::max_element(peaks.begin(), peaks.end());
  return most > 0 ? cell(fixed(most / bytes_of_gib, 2)) : no_cell(why);
}

Cell mean_cell(const Run& run, const char* name, double per, int decimals) {
  const auto mean = run.number(name);
  return mean ? cell(fixed(*mean / per, decimals)) : no_cell(no_utilisation(run));
}

}  // namespace

std::optional<double> samples_per_second(const Run& run) { return ratio(run.number("samples"), runtime_s(run)); }

std::optional<double> training_samples_per_second(const Run& run) {
  if (const auto mean = run.number("train/samples_per_second_mean")) return mean;
  const auto warmup = static_cast<std::size_t>(run.option("monitor.train_speed.warmup").value_or(1));
  double samples = 0;
  double seconds = 0;
  for (std::size_t i = warmup; i < run.steps.size(); ++i) {
    samples += static_cast<double>(run.steps[i].samples);
    seconds += run.steps[i].step_time_s;
  }
  return ratio(samples, seconds);
}

Cell command_cell(const Run& run, const Run&) {
  const auto config = (run.folder / "config.toml").string();
  if (run.nodes > 1)
    return cell(cat("slurm/submit --nodes=", run.nodes, " --gpus-per-node=", run.ranks / run.nodes, " ", config));
  return cell(run.ranks > 1 ? cat("capstan run ", config, " -n ", run.ranks) : cat("capstan run ", config));
}

Cell setup_cell(const Run& run, const Run&) {
  if (run.nodes > 1) return cell(cat(run.nodes, " Node"));
  return cell(run.ranks == 1 ? "Single Node, Single GPU" : cat("Single Node, ", run.ranks, " GPUs"));
}

Cell nodes_cell(const Run& run, const Run&) { return cell(counted(run.nodes, "node")); }

Cell gpus_cell(const Run& run, const Run&) { return cell(std::to_string(run.ranks)); }

Cell stage_cell(const Run& run, const Run&) {
  const auto stage = run.strategy_text("stage");
  if (stage.empty()) return cell(run.name);
  auto text = "ZeRO Stage " + stage;
  if (run.strategy_text("offload_optimizer") == "cpu") {
    text += " + Offloading";
    if (run.strategy_text("pin_memory") == "true") text += " (pinned)";
  }
  return cell(text);
}

Cell layers_cell(const Run& run, const Run&) {
  return number_cell(run.option("model.num_layers"), 0, "config.toml has no model.num_layers");
}

Cell micro_batch_cell(const Run& run, const Run&) {
  return number_cell(run.option("train.micro_batch"), 0, "config.toml has no train.micro_batch");
}

Cell rank_batch_cell(const Run& run, const Run&) {
  const auto micro_batch = run.option("train.micro_batch");
  const auto accumulation = run.option("train.accumulation");
  if (!micro_batch || !accumulation) return no_cell("config.toml does not say it");
  return cell(fixed(*micro_batch * *accumulation, 0));
}

Cell parameters_cell(const Run& run, const Run&) {
  const auto parameters = run.number("parameters");
  return parameters ? cell(thousands(std::llround(*parameters))) : no_cell(not_ended(run));
}

Cell train_loss_cell(const Run& run, const Run&) { return number_cell(run.number("train_loss"), 4, not_ended(run)); }

Cell last_loss_cell(const Run& run, const Run&) {
  if (run.steps.empty() || !run.steps.back().loss) return no_cell("metrics.jsonl has no last step with a finite loss");
  return cell(fixed(*run.steps.back().loss, 4));
}

Cell eval_loss_1_cell(const Run& run, const Run&) { return eval_loss(run, 1); }
Cell eval_loss_2_cell(const Run& run, const Run&) { return eval_loss(run, 2); }
Cell eval_loss_3_cell(const Run& run, const Run&) { return eval_loss(run, 3); }

Cell final_eval_loss_cell(const Run& run, const Run&) {
  const auto found =
      std::find_if(run.evaluations.rbegin(), run.evaluations.rend(),
                   [](const EvaluationLine& evaluation) { return evaluation.split == "eval" && evaluation.loss; });
  if (found == run.evaluations.rend()) return no_cell(no_loss);
  return cell(fixed(*found->loss, 4));
}

Cell exact_match_cell(const Run& run, const Run&) { return score_cell(run, "exact_match"); }
Cell f1_cell(const Run& run, const Run&) { return score_cell(run, "f1"); }

Cell every_exact_match_cell(const Run& run, const Run&) { return every_score_cell(run, "exact_match"); }
Cell every_f1_cell(const Run& run, const Run&) { return every_score_cell(run, "f1"); }

Cell steps_per_epoch_cell(const Run& run, const Run&) {
  return number_cell(run.number("steps_per_epoch"), 0, not_ended(run));
}

Cell samples_cell(const Run& run, const Run&) { return number_cell(samples_per_second(run), 3, not_ended(run)); }

Cell samples_scale_cell(const Run& run, const Run& base) {
  return number_cell(ratio(samples_per_second(run), samples_per_second(base)), 2, not_ended(run));
}

Cell steps_rate_cell(const Run& run, const Run&) {
  if (const auto rate = run.number("train_steps_per_second")) return cell(fixed(*rate, 3));
  return number_cell(ratio(run.number("steps"), runtime_s(run)), 3, not_ended(run));
}

Cell callback_samples_cell(const Run& run, const Run&) {
  return number_cell(training_samples_per_second(run), 3, "metrics.jsonl has no step after the warm-up");
}

Cell eval_samples_cell(const Run& run, const Run&) {
  for (const auto& evaluation : run.evaluations) {
    if (evaluation.split == "eval" && evaluation.loss && evaluation.runtime_s > 0)
      return cell(fixed(static_cast<double>(evaluation.samples) / evaluation.runtime_s, 3));
  }
  return no_cell("the run was not evaluated");
}

Cell runtime_cell(const Run& run, const Run&) { return number_cell(runtime_s(run), 2, not_ended(run)); }

Cell runtime_scale_cell(const Run& run, const Run& base) {
  return number_cell(ratio(runtime_s(base), runtime_s(run)), 2, not_ended(run));
}

Cell workshop_efficiency_cell(const Run& run, const Run& base) {
  return percent_cell(ratio(runtime_s(run), runtime_s(base)), not_ended(run));
}

Cell efficiency_cell(const Run& run, const Run& base) {
  return percent_cell(ratio(runtime_s(base), runtime_s(run)), not_ended(run));
}

Cell job_time_cell(const Run& run, const Run&) {
  const auto seconds = runtime_s(run);
  if (!seconds) return no_cell(not_ended(run));
  const auto whole = static_cast<int>(std::lround(*seconds));
  std::array<char, 64> out{};
  std::snprintf(out.data(), out.size(), "%02d:%02d:%02d", whole / 3600, whole % 3600 / 60, whole % 60);
  return cell(out.data());
}

Cell step_time_cell(const Run& run, const Run&) {
  return run.steps.empty() ? no_cell("metrics.jsonl has no step") : cell(fixed(run.steps.back().step_time_s, 3));
}

Cell allocated_peak_gb_cell(const Run& run, const Run&) {
  return peak_gb_cell(run.device_peaks, "the run computed on CPUs");
}

Cell host_peak_gb_cell(const Run& run, const Run&) {
  return peak_gb_cell(run.host_peaks, "summary.json does not say what the processes took");
}

Cell allocated_mb_cell(const Run& run, const Run&) { return mean_cell(run, "avg_mem_alloc_MB", 1, 0); }
Cell allocated_gb_cell(const Run& run, const Run&) { return mean_cell(run, "avg_mem_alloc_MB", mib_of_gib, 2); }
Cell utilisation_cell(const Run& run, const Run&) { return mean_cell(run, "avg_gpu_util_%", 1, 1); }
Cell gpu_peak_cell(const Run& run, const Run&) { return gpu_cell(run, &MemoryUse::peak, 1, 0); }
Cell gpu_average_cell(const Run& run, const Run&) { return gpu_cell(run, &MemoryUse::mean, 1, 2); }
Cell gpu_peak_gib_cell(const Run& run, const Run&) { return gpu_cell(run, &MemoryUse::peak, mib_of_gib, 2); }
Cell gpu_average_gib_cell(const Run& run, const Run&) { return gpu_cell(run, &MemoryUse::mean, mib_of_gib, 2); }

Cell gpu_mode_cell(const Run& run, const Run&) {
  const auto use = gpu_use(run);
  return use ? cell(mode_text(*use)) : no_cell(no_gpu_log(run));
}

Cell memory_scale_cell(const Run& run, const Run& base) {
  const auto own = gpu_use(run);
  const auto first = gpu_use(base);
  if (!own || !first || own->peak <= 0) return no_cell(no_gpu_log(own ? base : run));
  return cell(fixed(first->peak / own->peak, 2));
}

Cell cpu_peak_cell(const Run& run, const Run&) { return cpu_cell(run, &MemoryUse::peak, 0); }
Cell cpu_average_cell(const Run& run, const Run&) { return cpu_cell(run, &MemoryUse::mean, 2); }

Cell cpu_mode_cell(const Run& run, const Run&) {
  const auto* log = run.cpu();
  return log ? cell(mode_text(memory_use(log->real_mb))) : no_cell(no_cpu_log);
}

namespace {

Cell start_cell(const Run& run, const char* phase) {
  return number_cell(run.number(cat("start_s.", phase)), 2, not_ended(run));
}

}  // namespace

Cell start_engine_cell(const Run& run, const Run&) { return start_cell(run, "engine"); }
Cell start_device_cell(const Run& run, const Run&) { return start_cell(run, "device"); }
Cell start_ranks_cell(const Run& run, const Run&) { return start_cell(run, "ranks"); }
Cell start_configuration_cell(const Run& run, const Run&) { return start_cell(run, "configuration"); }
Cell start_data_cell(const Run& run, const Run&) { return start_cell(run, "data"); }
Cell start_prediction_cell(const Run& run, const Run&) { return start_cell(run, "prediction"); }
Cell start_token_caches_cell(const Run& run, const Run&) { return start_cell(run, "token_caches"); }
Cell start_preflight_cell(const Run& run, const Run&) { return start_cell(run, "preflight"); }
Cell start_groups_cell(const Run& run, const Run&) { return start_cell(run, "groups"); }
Cell start_parameters_cell(const Run& run, const Run&) { return start_cell(run, "parameters"); }
Cell start_loop_cell(const Run& run, const Run&) { return start_cell(run, "loop"); }

Cell first_step_cell(const Run& run, const Run&) {
  return run.steps.empty() ? no_cell("metrics.jsonl has no step") : cell(fixed(run.steps.front().step_time_s, 2));
}

}  // namespace report
