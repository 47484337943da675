#include "kinds.h"

#include <capstan/base/counted.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <variant>

namespace report {

using namespace capstan;
using namespace runs;

namespace {

constexpr const char* scale_note =
    "Scale factors: samples/s of the run divided by the base's, and the base's runtime divided by the run's; "
    "both grow with speed";
constexpr const char* both_memories_note =
    "GPU Memory (Default) is the peak of that; (Callback) is what tensors took after each step, mean over steps "
    "and ranks: avg_mem_alloc_MB";
constexpr const char* efficiencies_note =
    "Efficiency is the workshop's formula, T_N / T_base: above 100 % means slower than the base, so that less is "
    "better. Usual Efficiency is T_base / T_N, as textbooks define it: 100 % is perfect, less is worse";
constexpr const char* loss_note =
    "Loss, Train Loss: the mean over all steps of the run, which Hugging Face's Trainer prints as train_loss";
constexpr const char* rate_note =
    "Samples/s, Train Samples/sec: all ranks together, over the whole run (evaluation and saving too), as "
    "train_samples_per_second";
constexpr const char* callback_note =
    "Samples/s (Callback): all ranks together, over training steps only, after the warm-up: "
    "train/samples_per_second_mean";
constexpr const char* gpu_note =
    "GPU memory: GPU 0 of rank 0's host as nvidia-smi counts it, from gpu_memory/: with CUDA's context and what the "
    "allocator keeps in reserve";
constexpr const char* mode_note =
    "Mode: the most frequent whole number of the samples and the share that has it; the lowest of several";
constexpr const char* runtime_note = "Runtime: from the first step to the end of the run, evaluation and saving too";
constexpr const char* steps_note = "Steps/s: steps / runtime, evaluation and saving too, as train_steps_per_second";
constexpr const char* eval_note = "Eval Samples/sec: the first evaluation's, all ranks together";
constexpr const char* samples_efficiency_note =
    "Usual Efficiency is T_base / T_N: with as many samples a GPU 100 % is perfect, less is worse";
constexpr const char* rank_batch_note =
    "Batch per GPU: samples of a data-parallel rank in a step (micro_batch x accumulation); the ranks of a "
    "tensor-parallel group compute the same ones together";
constexpr const char* job_time_note =
    "Total job time: the run's, from its first step on; the job's own, with loading, is 'Total time' at the end of "
    "logs/<job>.out";
constexpr const char* gb_note = "1 GB is 1024 MB, 1 MB is 1024 x 1024 bytes";

Kind baseline() {
  return {"baseline",
          "Baseline: your values",
          Shape::values,
          {{"Train Loss (Final)", train_loss_cell, "summary.json: train_loss"},
           {"Eval Loss (Epoch 1)", eval_loss_1_cell, "metrics.jsonl: loss of the split eval, epoch 1"},
           {"Eval Loss (Epoch 2)", eval_loss_2_cell, "the same, epoch 2"},
           {"Eval Loss (Epoch 3)", eval_loss_3_cell, "the same, epoch 3"},
           {"Training Speed (samples/sec)", samples_cell, "summary.json: samples / runtime_s"},
           {"Evaluation Speed (samples/sec)", eval_samples_cell, "metrics.jsonl: samples / runtime_s, epoch 1"},
           {"Steps per Epoch", steps_per_epoch_cell, "summary.json: steps_per_epoch"},
           {"Memory Allocated (MB)", allocated_mb_cell, "summary.json: avg_mem_alloc_MB"},
           {"GPU Utilization (%)", utilisation_cell, "summary.json: avg_gpu_util_%"},
           {"EM (%), each epoch", every_exact_match_cell, "metrics.jsonl: exact_match of the split eval"},
           {"F1 (%), each epoch", every_f1_cell, "metrics.jsonl: f1 of the split eval"}},
          {loss_note, rate_note}};
}

Kind zero_baseline() {
  const std::string training = "Training Metrics";
  const std::string gpu = "GPU Memory";
  const std::string host = "CPU Memory";
  return {"zero-baseline",
          "Baseline of the ZeRO exercise: your values",
          Shape::values,
          {{"Final Train Loss", train_loss_cell, "summary.json: train_loss", training},
           {"Eval Loss (Epoch 1)", eval_loss_1_cell, "metrics.jsonl: loss of the split eval, epoch 1", training},
           {"Eval Loss (Epoch 2)", eval_loss_2_cell, "the same, epoch 2", training},
           {"Eval Loss (Final)", final_eval_loss_cell, "the same, the last one", training},
           {"Train Samples/sec", samples_cell, "summary.json: samples / runtime_s", training},
           {"Eval Samples/sec", eval_samples_cell, "metrics.jsonl: samples / runtime_s, epoch 1", training},
           {"Steps per Epoch", steps_per_epoch_cell, "summary.json: steps_per_epoch", training},
           {"Peak Usage (MiB)", gpu_peak_cell, "gpu_memory/: GPU 0, the most", gpu},
           {"Average Usage (MiB)", gpu_average_cell, "gpu_memory/: GPU 0, the mean", gpu},
           {"Mode Usage (MiB)", gpu_mode_cell, "gpu_memory/: GPU 0, the most frequent", gpu},
           {"Peak Usage (MB)", cpu_peak_cell, "cpu_memory/: the most", host},
           {"Average Usage (MB)", cpu_average_cell, "cpu_memory/: the mean", host},
           {"Mode Usage (MB)", cpu_mode_cell, "cpu_memory/: the most frequent, in whole MB", host}},
          {loss_note, rate_note, gpu_note, mode_note}};
}

Kind fsdp_scaling() {
  return {"fsdp-scaling",
          "FSDP: several GPUs, several nodes",
          Shape::row_a_run,
          {{"Setup", setup_cell},
           {"Total GPUs", gpus_cell},
           {"Samples/s", samples_cell},
           {"Samples/s Scale Factor", samples_scale_cell},
           {"Runtime (s)", runtime_cell},
           {"Runtime Scale Factor", runtime_scale_cell},
           {"Loss", train_loss_cell},
           {"GPU Memory Allocated (GB)", allocated_peak_gb_cell}},
          {loss_note, rate_note, scale_note,
           "GPU Memory Allocated: the most that tensors took on the rank that took most, while steps ran", runtime_note,
           gb_note}};
}

Kind custom_model() {
  return {"custom-model",
          "Custom model: default and callback",
          Shape::row_a_run,
          {{"Setup", setup_cell},
           {"Total GPUs", gpus_cell},
           {"Samples/s (Default)", samples_cell},
           {"Samples/s (Callback)", callback_samples_cell},
           {"GPU Memory (GB, Default)", gpu_peak_gib_cell},
           {"GPU Memory (GB, Callback)", allocated_gb_cell},
           {"GPU Utilization (%)", utilisation_cell},
           {"Loss", train_loss_cell},
           {"Runtime (s)", runtime_cell}},
          {loss_note, rate_note, callback_note, gpu_note, both_memories_note, runtime_note, gb_note}};
}

Kind weak_layers() {
  return {"weak-layers",
          "Weak scaling: the model grows with the GPUs",
          Shape::row_a_run,
          {{"GPUs", gpus_cell},
           {"Num Layers", layers_cell},
           {"Per-GPU Batch", micro_batch_cell},
           {"Total Params", parameters_cell},
           {"Samples/s (Callback)", callback_samples_cell},
           {"GPU Memory (GB, Callback)", allocated_gb_cell},
           {"GPU Utilization (%)", utilisation_cell},
           {"Loss", train_loss_cell},
           {"Runtime (s)", runtime_cell},
           {"Efficiency (%)", workshop_efficiency_cell},
           {"Usual Efficiency (%)", efficiency_cell}},
          {efficiencies_note, callback_note, loss_note, runtime_note, gb_note},
          nullptr,
          {"model.num_layers"}};
}

Kind zero_stages() {
  return {
      "zero-stages",
      "ZeRO stages",
      Shape::row_a_run,
      {{"DeepSpeed Config", stage_cell},
       {"Submit Training Job", command_cell},
       {"Peak GPU Memory Used (MiB)", gpu_peak_cell},
       {"Average GPU Memory Used (MiB)", gpu_average_cell},
       {"Peak CPU Memory Used (MiB)", cpu_peak_cell},
       {"Average CPU Memory Used (MiB)", cpu_average_cell},
       {"Train Samples/Second", samples_cell}},
      {rate_note, gpu_note, "CPU memory: the process tree of rank 0's host as psrecord counts it, from cpu_memory/"}};
}

const std::vector<Column>& scaling_metrics() {
  static const std::vector<Column> columns{{"Submit Job", command_cell},
                                           {"Train Samples/sec", samples_cell},
                                           {"Train Loss", train_loss_cell},
                                           {"Peak GPU Memory (MiB)", gpu_peak_cell},
                                           {"Average GPU Memory (MiB)", gpu_average_cell},
                                           {"Mode for GPU Memory (MiB)", gpu_mode_cell},
                                           {"Train Runtime (s)", runtime_cell},
                                           {"Steps/s", steps_rate_cell},
                                           {"Eval Loss (Final)", final_eval_loss_cell},
                                           {"Eval Samples/sec", eval_samples_cell}};
  return columns;
}

Cell name_cell(const Run& run, const Run&) { return cell(run.name); }

Cell gpu_count(const Run& run, const Run&) { return cell(counted(run.ranks, "GPU")); }

// Columns of tables where the data grows with the GPUs.
std::vector<Column> growing_metrics() {
  auto columns = scaling_metrics();
  columns.push_back({"Usual Efficiency (%)", efficiency_cell});
  return columns;
}

std::vector<std::string> growing_notes() {
  return {rate_note, loss_note, gpu_note, mode_note, runtime_note, steps_note, eval_note, samples_efficiency_note};
}

const std::vector<std::string>& growing_samples() {
  static const std::vector<std::string> options{"data.train_samples", "data.samples_per_rank"};
  return options;
}

Kind zero_scaling() {
  return {"zero-scaling",   "ZeRO: the data grows with the GPUs of a node",
          Shape::metrics,   growing_metrics(),
          growing_notes(),  gpu_count,
          growing_samples()};
}

Kind zero_comparison() {
  auto columns = scaling_metrics();
  constexpr int rows_of_gpus = 6;  // the document has the host's after them; what it asks for besides comes last
  columns.insert(columns.begin() + rows_of_gpus, {{"Peak CPU Memory (MiB)", cpu_peak_cell},
                                                  {"Average CPU Memory (MiB)", cpu_average_cell},
                                                  {"Mode for CPU Memory (MiB)", cpu_mode_cell}});
  return {"zero-comparison",
          "ZeRO stages on two GPUs",
          Shape::metrics,
          columns,
          {rate_note, loss_note, gpu_note, "CPU memory: the process tree of rank 0's host, from cpu_memory/", mode_note,
           runtime_note, steps_note, eval_note},
          stage_cell};
}

Kind zero_nodes() {
  auto columns = growing_metrics();
  columns[3] = {"Peak GPU Memory (GiB)", gpu_peak_gib_cell};
  columns[4] = {"Average GPU Memory (GiB)", gpu_average_gib_cell};
  return {"zero-nodes",     "ZeRO: the data grows with the nodes", Shape::metrics, columns, growing_notes(), nodes_cell,
          growing_samples()};
}

Kind nemo_scaling() {
  return {"nemo-scaling",
          "Llama and Mixtral: LoRA, tensor and expert parallelism",
          Shape::row_a_run,
          {{"GPUs", gpus_cell},
           {"Batch per GPU", rank_batch_cell},
           {"Total job time (HH:MM:SS)", job_time_cell},
           {"Train step time (s)", step_time_cell},
           {"Last reduced_train_loss", last_loss_cell},
           {"GPU 0 Peak (MiB)", gpu_peak_cell},
           {"GPU 0 Avg (MiB)", gpu_average_cell},
           {"GPU 0 Mode (MiB)", gpu_mode_cell},
           {"Time scaling vs base", runtime_scale_cell},
           {"Peak memory scaling vs base", memory_scale_cell}},
          {rank_batch_note, job_time_note, "Train step time: the last step's, as on NeMo's last line", gpu_note,
           mode_note}};
}

Kind overview() {
  return {"runs",
          "Runs",
          Shape::row_a_run,
          {{"Run", name_cell},
           {"GPUs", gpus_cell},
           {"Eval Loss (Final)", final_eval_loss_cell},
           {"Train Loss", train_loss_cell},
           {"Last Loss", last_loss_cell},
           {"EM", exact_match_cell},
           {"F1", f1_cell},
           {"Samples/s", samples_cell},
           {"Samples/s (Callback)", callback_samples_cell},
           {"Steps/s", steps_rate_cell},
           {"Runtime (s)", runtime_cell},
           {"Eval Samples/sec", eval_samples_cell},
           {"GPU Memory Allocated (GB)", allocated_peak_gb_cell}},
          {rate_note, callback_note, steps_note, loss_note, runtime_note, eval_note,
           "GPU Memory Allocated: the most that tensors took on the rank that took most, while steps ran", gb_note},
          nullptr,
          {},
          true};
}

Kind start() {
  return {"start",
          "From the command to the first step, in seconds",
          Shape::row_a_run,
          {{"Run", name_cell},
           {"GPUs", gpus_cell},
           {"Engine", start_engine_cell},
           {"Device", start_device_cell},
           {"Ranks", start_ranks_cell},
           {"Configuration", start_configuration_cell},
           {"Data", start_data_cell},
           {"Prediction", start_prediction_cell},
           {"Token Caches", start_token_caches_cell},
           {"Pre-flight", start_preflight_cell},
           {"Groups", start_groups_cell},
           {"Parameters", start_parameters_cell},
           {"Loop", start_loop_cell},
           {"First Step", first_step_cell}},
          {"Phases of rank 0's start, as docs/monitors.md explains them: start_s of summary.json"}};
}

}  // namespace

Cell Column::value(const Run& run, const Run& base) const {
  if (of) return of(run, base);
  const auto found = run.options.find(option);
  if (found == run.options.end()) return cell("not set");
  const auto* real = std::get_if<double>(&found->second);
  return cell(real ? cat(*real) : run.option_text(option));  // 0.0001, where TOML would have 1e-04
}

bool Kind::has(CellOf* cell) const {
  return std::any_of(columns.begin(), columns.end(), [&](const Column& column) { return column.of == cell; });
}

Kind with_host_memory(Kind kind) {
  if (kind.has(cpu_peak_cell)) return kind;
  const auto category = kind.has_categories() ? "CPU Memory" : "";
  kind.columns.push_back({"Host Memory (GB)", host_peak_gb_cell, "summary.json: peak_memory_bytes", category});
  kind.notes.emplace_back("Host Memory: the most that a rank's process took, on the rank that took most");
  if (std::find(kind.notes.begin(), kind.notes.end(), gb_note) == kind.notes.end()) kind.notes.emplace_back(gb_note);
  return kind;
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{nemo_scaling(),    baseline(),      fsdp_scaling(), custom_model(),
                                     weak_layers(),     zero_baseline(), zero_stages(),  zero_scaling(),
                                     zero_comparison(), zero_nodes(),    overview(),     start()};
  return all;
}

}  // namespace report
