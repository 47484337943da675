#include "setup/options.h"

#include <algorithm>
#include <filesystem>

#include <capstan/base/exit_code.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>
#include <capstan/setup/host_schemas.h>

#include "setup/schedule.h"

namespace capstan::setup {

void RunOptions::describe(config::OptionTable<RunOptions>& t) {
  t.add("name", &RunOptions::name)
      .doc(
          "name of the run and of its folder; when not set the configuration file's, with its folders inside of a "
          "collection of configs/: zero-baseline for configs/workshop/zero/baseline.toml");
  t.add("dir", &RunOptions::dir).path().doc("folder in which the run's folder is made");
  t.add("seed", &RunOptions::seed)
      .min(0)
      .max(9e18)
      .doc("keys initial weights, sample order and dropout; the same on any number of ranks");
  t.add("deterministic", &RunOptions::deterministic)
      .doc("sums in one order: bit-equal results at the same world size, somewhat slower");
  t.add("device", &RunOptions::device)
      .choices({"auto", "cpu", "cuda"})
      .doc("auto: cuda where the NVIDIA driver shows a GPU, else cpu");
  t.add("host_memory", &RunOptions::host_memory)
      .min(0)
      .max(1e9)
      .doc("GiB of host memory that a node's ranks may use; 0: what this machine, or its control group, has left");
  t.add("memory_check", &RunOptions::memory_check)
      .choices({"refuse", "warn"})
      .doc(
          "where a rank needs more of its GPU than that has, by the prediction of `capstan check --gpu`: refuse: the "
          "run "
          "ends before it loads anything, with what would help; warn: it says so and starts");
  t.add("save_weights", &RunOptions::save_weights).doc("write the final weights; false for measurements");
  t.add("verify_replicas", &RunOptions::verify_replicas)
      .min(0)
      .doc(
          "compare what ranks hold alike (parameters, adapters, optimizer state) bit for bit after the first 3 steps, "
          "before each checkpoint and every N steps; a difference ends the run and is named; 0: never");
  t.add("requeue_exit_code", &RunOptions::requeue_exit_code)
      .min(0)
      .max(128)  // above: ended by a signal
      .doc(
          "what a run that can continue later ends with when SIGTERM, SIGUSR1, SIGUSR2 or the end of its SLURM job's "
          "time stop it, for SLURM's RequeueExit and the job script; 0: as if it had ended. Not one that a run that "
          "failed ends with");
  t.add("cache", &RunOptions::cache)
      .path()
      .doc(
          "folder that runs share for what can be made again: tokenized samples (where data.cache names no other), "
          "CUDA's compiled kernels; safe for runs that start at once. Not set: CAPSTAN_CACHE, or no cache");
}

void ModelOptions::describe(config::OptionTable<ModelOptions>& t) {
  t.add("path", &ModelOptions::path)
      .path()
      .doc("Hugging Face folder to start from: config.json gives the sizes, safetensors the weights");
  t.add("preset", &ModelOptions::preset)
      .doc(
          "a published model's sizes by name, with random weights (`capstan plugins NAME` lists those of a plugin); "
          "other options of the table win over it");
}

namespace {

void describe_evaluation(config::OptionTable<TrainOptions>& t) {
  t.add("eval_every", &TrainOptions::eval_every).min(0).doc("evaluate the loss every N steps; 0: after each epoch");
  t.add("eval_batch", &TrainOptions::eval_batch).min(1).max(65536).doc("samples a rank evaluates at once");
  t.add("stop_after_evals", &TrainOptions::stop_after_evals)
      .min(0)
      .doc(
          "the run ends in order, as after its last step, when this number of evaluations in a row were no better than "
          "the best before them, by checkpoint.metric and checkpoint.mode; 0: it does all its steps");
  t.add("stop_min_delta", &TrainOptions::stop_min_delta)
      .min(0)
      .doc("stop_after_evals counts an evaluation as better only if it is so by more than this");
  t.add("generate_samples", &TrainOptions::generate_samples)
      .min(-1)
      .doc("evaluation questions answered and scored at the end (the first ones); -1: all");
  t.add("generate_train_samples", &TrainOptions::generate_train_samples)
      .min(-1)
      .doc("training questions answered and scored at the end (the first ones); -1: all");
  t.add("generate_each_eval", &TrainOptions::generate_each_eval)
      .doc("answer and score these questions after each evaluation, not only at the end");
  t.add("max_new_tokens", &TrainOptions::max_new_tokens).min(1).doc("longest generated answer, tokens");
  t.add("temperature", &TrainOptions::temperature)
      .min(0)
      .max(100)
      .doc(
          "0: answers take the most probable token each time; above: tokens are drawn, keyed by run.seed, question and "
          "position");
  t.add("top_p", &TrainOptions::top_p)
      .min(0.001)
      .max(1)
      .doc("draw from the fewest most probable tokens that together have this probability");
}

}  // namespace

void TrainOptions::describe(config::OptionTable<TrainOptions>& t) {
  t.add("max_steps", &TrainOptions::max_steps)
      .min(1)
      .doc("optimizer steps; with epochs too, the first to end ends the run");
  t.add("epochs", &TrainOptions::epochs).min(1).doc("passes over the training samples");
  t.add("micro_batch", &TrainOptions::micro_batch)
      .min(1)
      .max(1 << 20)
      .doc(
          "samples a rank computes at once. \"auto\", with global_batch set: the largest that divides it and whose "
          "predicted memory fits, on GPUs; the run's config.toml has the number, which a resumed run takes again");
  t.add("accumulation", &TrainOptions::accumulation).min(1).max(1 << 20).doc("micro-steps of an optimizer step");
  t.add("global_batch", &TrainOptions::global_batch)
      .min(1)
      .max(1 << 30)
      .doc(
          "samples of an optimizer step over all ranks = micro_batch x accumulation x data-parallel size; any two of "
          "the three fix the third");
  t.add("precision", &TrainOptions::precision)
      .choices({"fp32", "bf16", "fp16", "bf16_pure", "fp64"})
      .doc(
          "compute dtype; bf16 and fp16 keep fp32 masters, optimizer state and gradient sums; bf16_pure keeps those in "
          "bf16 too, so small updates are lost; fp64 is for tests");
  t.add("loss_scale", &TrainOptions::loss_scale)
      .doc(
          "what the loss is multiplied by before backward, so that small gradients survive in fp16; updates don't see "
          "it. auto: dynamic for fp16, none otherwise; none; dynamic: halved when gradients overflow (that step is "
          "skipped), doubled after loss_scale_window good steps; or a number, such as \"1024\"");
  t.add("loss_scale_init", &TrainOptions::loss_scale_init).above(0).doc("dynamic loss scale of the first step");
  t.add("loss_scale_window", &TrainOptions::loss_scale_window).min(1).doc("good steps before a dynamic scale doubles");
  t.add("loss_scale_min", &TrainOptions::loss_scale_min)
      .above(0)
      .doc("a dynamic loss scale stays at least this; an overflow there is what on_nonfinite is for");
  t.add("on_nonfinite", &TrainOptions::on_nonfinite)
      .choices({"stop", "skip", "dump"})
      .doc(
          "when loss or gradients are not finite, weights stay as they are and the first parameter and unit are named. "
          "stop: the run ends; skip: the step is left out, and the run ends after 20 of them in a row; dump: the "
          "step's batch and norms go to dump-step-N.json in the run's folder, then the run ends");
  t.add("reduce", &TrainOptions::reduce)
      .choices({"auto", "step", "micro_step"})
      .doc(
          "when gradients are summed over ranks under accumulation; auto: micro_step where gradients are sharded and "
          "parameters are not gathered once a step, else step");
  t.add("regather", &TrainOptions::regather)
      .choices({"auto", "step", "micro_step"})
      .doc(
          "when sharded parameters are gathered: in each micro-step, or once a step, through which they stay whole. "
          "auto: in a pipeline's stages step, unless that is too large for the run's GPUs; else micro_step");
  t.add("cuda_graphs", &TrainOptions::cuda_graphs)
      .choices({"auto", "off"})
      .doc(
          "auto: on a GPU, a micro-step whose shape has been seen before, but for sums over ranks, or a step that "
          "generates a token of each answer, is recorded as CUDA graphs and replayed, which spares the host its "
          "launches and gives the same bits; the run's log says why where it cannot. off: the host launches all");
  t.add("shuffle", &TrainOptions::shuffle).doc("a new order every epoch, the same on any number of ranks");
  t.add("drop_last", &TrainOptions::drop_last)
      .doc("drop an epoch's last incomplete batch; otherwise it is filled up with rows of weight 0");
  t.add("sort_by_length", &TrainOptions::sort_by_length)
      .doc(
          "the samples of a step go into its micro-batches by length, the shortest first: fewer positions are padding, "
          "and ranks wait less for one another. false: in the order in which they are drawn");
  t.add("pad_to_multiple", &TrainOptions::pad_to_multiple)
      .min(0)
      .max(1 << 16)
      .doc("rows are as long as the micro-batch's longest, rounded up to this; 0: to 64 on GPUs, to 8 on CPUs");
  describe_evaluation(t);
}

void OptimizerOptions::describe(config::OptionTable<OptimizerOptions>& t) {
  t.add("lr", &OptimizerOptions::lr).min(0).max(1e6).doc("peak learning rate");
  t.add("weight_decay", &OptimizerOptions::weight_decay).min(0).max(1e6).doc("decoupled weight decay");
  t.add("decay", &OptimizerOptions::decay)
      .choices({"matrices", "all"})
      .doc("matrices: biases and norms are not decayed; all: everything is");
  describe_schedule(t);
  t.add("clip", &OptimizerOptions::clip).min(0).doc("largest global gradient norm; 0: no clipping");
}

// Three years: counts of milliseconds and nanoseconds hold it.
constexpr double longest_s = 1e8;

void CommOptions::describe(config::OptionTable<CommOptions>& t) {
  t.add("timeout_s", &CommOptions::timeout_s)
      .above(0)
      .max(longest_s)
      .doc("a collective that takes longer is reported as a hang and ends the run, seconds");
  t.add("silence_s", &CommOptions::silence_s)
      .above(1)
      .max(longest_s)
      .doc("a rank that gives no sign of life for so long counts as dead, seconds");
  t.add("connect_timeout_s", &CommOptions::connect_timeout_s)
      .above(0)
      .max(longest_s)
      .doc("how long ranks wait for each other at the start, seconds; who is missing is said every 10 s");
  t.add("interface", &CommOptions::interface)
      .doc(
          "network interface for the rendezvous, Gloo and NCCL (NCCL_SOCKET_IFNAME), such as ib0; empty: the one that "
          "leads to rank 0");
  t.add("ib_hca", &CommOptions::ib_hca).doc("InfiniBand adapters for NCCL (NCCL_IB_HCA), such as mlx5_0,mlx5_1");
  t.add("algorithm", &CommOptions::algorithm)
      .doc("NCCL's algorithms (NCCL_ALGO), such as Ring or Tree; empty: its choice");
  t.gone("peer_copies", false, "leave it out: NCCL gathers parameters as fast (tools/bench/records/speed-log.md)");
}

void CheckpointOptions::describe(config::OptionTable<CheckpointOptions>& t) {
  t.add("every_steps", &CheckpointOptions::every_steps)
      .min(0)
      .doc(
          "save every N steps; 0: not by steps. With this or another every_… set, a run also saves when it is "
          "asked to stop, and at its end");
  t.add("every_minutes", &CheckpointOptions::every_minutes).min(0).max(1e6).doc("save every N minutes; 0: not by time");
  t.add("every_epoch", &CheckpointOptions::every_epoch).doc("save after each epoch");
  t.add("every_eval", &CheckpointOptions::every_eval).doc("save after each evaluation");
  t.add("on_interrupt", &CheckpointOptions::on_interrupt)
      .doc(
          "a run that Ctrl-C (SIGINT) stops saves a checkpoint, also where no every_… is set; false: only where one "
          "is");
  t.add("keep", &CheckpointOptions::keep)
      .min(0)
      .doc("how many of the newest stay, older ones are removed; 0: all stay");
  t.add("keep_best", &CheckpointOptions::keep_best)
      .doc("an evaluation better than all before is saved too, and the best one stays besides those of keep");
  t.add("metric", &CheckpointOptions::metric)
      .doc(
          "what keep_best and train.stop_after_evals go by: eval_loss, a figure, or an answer's score such as eval_f1");
  t.add("mode", &CheckpointOptions::mode)
      .choices({"auto", "min", "max"})
      .doc(
          "is the smallest or the largest metric the best? auto: as it is known of losses, exact_match, f1 and "
          "figures");
  t.add("final_weights", &CheckpointOptions::final_weights)
      .choices({"last", "best"})
      .doc(
          "what the run's weights/ and model/ are at its end: the weights after the last step, or with keep_best those "
          "of the best evaluation");
  t.add("save", &CheckpointOptions::save)
      .choices({"all", "trainable"})
      .doc(
          "trainable: frozen parameters are left out, and a resumed run takes them from where they came at its start. "
          "Not set: so where model.path has them, else all");
  t.add("asynchronous", &CheckpointOptions::asynchronous)
      .doc(
          "what is saved is copied to host memory during the next step's forward and backward, and written during "
          "training; false: training waits until it is on disk");
  t.add("resume", &CheckpointOptions::resume)
      .doc(
          "none; auto: continue in the run's own folder from its newest valid checkpoint, if there is one; or the "
          "folder of a checkpoint, or of a run that has some, to continue from in a new folder");
  t.add("verify", &CheckpointOptions::verify)
      .choices({"hashes", "structure"})
      .doc("how far a checkpoint is looked at before a run continues from it: every byte, or files and their sizes");
  t.add("accept", &CheckpointOptions::accept)
      .doc(
          "what may differ from the run that is resumed though it changes what is learned, by name, such as "
          "[\"optimizer.clip\", \"data\"]; a table's name means all of it. docs/reliability.md has what is compared");
}

namespace {

// A folder below run.dir is called so, and terminals and manifests show it.
std::string fault_of_name(const std::string& name) {
  if (name.empty()) return "is empty";
  if (name == "." || name == ".." || name.find('/') != std::string::npos)
    return "is a path, which leads out of run.dir";
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::any_of(name.begin(), name.end(), is_control)) return "has a control character";
  if (!is_utf8(name)) return "is not UTF-8";
  return {};
}

}  // namespace

void check_run(const config::Options<RunOptions>& options, Diagnostics& diagnostics) {
  if (const auto fault = options->name ? fault_of_name(*options->name) : ""; !fault.empty()) {
    diagnostics.add(options.where(&RunOptions::name), "run.name " + fault,
                    "give the name of a folder, such as \"run-3\"; where it is, run.dir says");
  }
  if (const auto dir = std::filesystem::absolute(options->dir).string(); !is_utf8(dir)) {
    diagnostics.add(options.where(&RunOptions::dir),
                    cat("run.dir leads to \"", dir, "\", whose name is not UTF-8: manifests could not say it"),
                    "set run.dir to a folder with another name, or rename that one (convmv)");
  }
  const auto code = options->requeue_exit_code;
  for (const auto taken : {ExitCode::failure, ExitCode::usage, ExitCode::bandwidth_unmeasurable,
                           ExitCode::bandwidth_low, ExitCode::bug, ExitCode::peer_failed}) {
    if (code != static_cast<int>(taken)) continue;
    diagnostics.add(options.where(&RunOptions::requeue_exit_code),
                    cat("run.requeue_exit_code is ", code, ", with which runs that failed end"),
                    "take a number that means nothing else, such as 85, or 0");
  }
}

void check_checkpoint(const config::Options<CheckpointOptions>& options, Diagnostics& diagnostics) {
  if (options->final_weights == "best" && !options->keep_best) {
    diagnostics.add(options.where(&CheckpointOptions::final_weights),
                    "checkpoint.final_weights is \"best\", but checkpoint.keep_best is off",
                    "set checkpoint.keep_best = true, or checkpoint.final_weights = \"last\"");
  }
}

std::vector<std::pair<std::string, config::Schema>> host_schemas() {
  return {{"run", config::Options<RunOptions>::schema()},
          {"model", config::Options<ModelOptions>::schema()},
          {"data", config::Options<DataOptions>::schema()},
          {"data.sources.NAME", config::Options<DataSourceOptions>::schema()},
          {"train", config::Options<TrainOptions>::schema()},
          {"optimizer", config::Options<OptimizerOptions>::schema()},
          {"optimizer.groups.NAME", config::Options<OptimizerGroupOptions>::schema()},
          {"checkpoint", config::Options<CheckpointOptions>::schema()},
          {"comm", config::Options<CommOptions>::schema()}};
}

}  // namespace capstan::setup
