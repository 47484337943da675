#include "hints.h"

#include <capstan/base/text.h>

#include "deepspeed_keys.h"

namespace import_deepspeed {
namespace {

constexpr const char* no_python = "there is no Python at run time";
constexpr const char* of_the_launcher = "srun, torchrun, mpirun or `capstan run -n` say it";
constexpr const char* of_nccl = "NCCL reads its own variables from the environment, which is passed on to it";
constexpr const char* no_such_cache = "nothing is kept there; data.cache keeps tokenized samples";

/// A key of one program; see plugin::Hint.
struct Line {
  std::string key;
  std::string ours;
  std::string why;
};
using Lines = std::vector<Line>;

Lines together(Lines all, const Lines& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Lines batch_and_length() {
  return {{"per_device_train_batch_size", "train.micro_batch", "samples a rank computes at once"},
          {"per_device_eval_batch_size", "train.eval_batch", ""},
          {"gradient_accumulation_steps", "train.accumulation", "or give train.global_batch and leave it out"},
          {"num_train_epochs", "train.epochs", ""},
          {"max_steps", "train.max_steps", ""},
          {"max_seq_length", "data.max_length", ""},
          {"dataloader_drop_last", "train.drop_last", ""},
          {"auto_find_batch_size", "", "`capstan check` says what a rank will need"},
          {"group_by_length", "train.sort_by_length",
           "among the samples of one step, so that it learns from the same ones"},
          {"dataloader_num_workers", "", "samples are read one step ahead, while the device computes"},
          {"dataloader_pin_memory", "", "always so"},
          {"remove_unused_columns", "", "a data plugin reads what it needs"},
          {"model_name_or_path", "model.path", ""},
          {"pretrained_model_name_or_path", "model.path", ""},
          {"torch_dtype", "train.precision", ""},
          {"attn_implementation", "", "attention takes the fastest kernel that the model and the device allow"}};
}

Lines optimizer_lines() {
  return {{"learning_rate", "optimizer.lr", ""},
          {"weight_decay", "optimizer.weight_decay", "biases and norms are left out, as there"},
          {"adam_beta1", "optimizer.betas", "the first of two"},
          {"adam_beta2", "optimizer.betas", "the second of two"},
          {"adam_epsilon", "optimizer.eps", ""},
          {"max_grad_norm", "optimizer.clip", ""},
          {"lr_scheduler_type", "optimizer.schedule",
           R"(cosine_with_restarts: "cosine_restarts"; warmup_stable_decay: "wsd")"},
          {"warmup_steps", "optimizer.warmup_steps", "with optimizer.warmup_from_zero = true for the same steps"},
          {"warmup_ratio", "optimizer.warmup_ratio", "with optimizer.warmup_from_zero = true for the same steps"},
          {"optim", "optimizer.plugin",
           "adamw, which is fused, for all of AdamW's; adam8bit for the 8-bit ones; lion; muon"},
          {"label_smoothing_factor", "", "the loss is the plain cross-entropy"}};
}

Lines precision_and_speed() {
  return {{"fp16", "train.precision", R"("fp16")"},
          {"bf16", "train.precision", R"("bf16")"},
          {"half_precision_backend", "", "there is one"},
          {"tf32", "", "matrix products are in train.precision"},
          {"torch_compile", "", "operations are fused already"},
          {"gradient_checkpointing", "strategy.recompute.every", "1 for every block"},
          {"fsdp", "strategy.fsdp.mode", "no_shard, shard_grad_op, full_shard or hybrid_shard; offload is cpu_offload"},
          {"fsdp_config", "strategy.fsdp", "its keys stand in the table below"},
          {"deepspeed", "strategy.zero", "`capstan import-deepspeed FILE` translates its JSON"},
          {"ddp_find_unused_parameters", "", "every parameter is used"},
          {"ddp_bucket_cap_mb", "", "gradients are reduced unit by unit; strategy.zero.bucket_size joins units"},
          {"ddp_backend", "", "NCCL on GPUs, Gloo on CPUs"},
          {"ddp_timeout", "comm.timeout_s", "in seconds"},
          {"local_rank", "", of_the_launcher}};
}

Lines evaluation_and_saving() {
  return {{"eval_strategy", "train.eval_every", "0, the default: after each epoch; or a number of steps"},
          {"evaluation_strategy", "train.eval_every", "0, the default: after each epoch; or a number of steps"},
          {"eval_steps", "train.eval_every", ""},
          {"do_train", "", "`capstan run` trains"},
          {"do_eval", "", "a configuration with data.eval is evaluated"},
          {"predict_with_generate", "train.generate_samples", "questions answered and scored by EM and F1"},
          {"save_strategy", "checkpoint.every_epoch", R"("epoch": true; "steps": checkpoint.every_steps)"},
          {"save_steps", "checkpoint.every_steps", ""},
          {"save_total_limit", "checkpoint.keep", ""},
          {"load_best_model_at_end", "checkpoint.final_weights", R"("best", with checkpoint.keep_best = true)"},
          {"metric_for_best_model", "checkpoint.metric", ""},
          {"greater_is_better", "checkpoint.mode", R"("max" or "min")"},
          {"resume_from_checkpoint", "checkpoint.resume", R"("auto", or a folder)"},
          {"save_safetensors", "", "always so"},
          {"save_only_model", "run.save_weights", "the final weights are apart from checkpoints"}};
}

Lines names_and_logs() {
  return {{"output_dir", "run.dir", "each run makes its own folder in it"},
          {"overwrite_output_dir", "", "a run never writes over another one's folder"},
          {"run_name", "run.name", ""},
          {"seed", "run.seed", ""},
          {"data_seed", "run.seed", "one seed keys everything"},
          {"full_determinism", "run.deterministic", ""},
          {"use_cpu", "run.device", R"("cpu")"},
          {"logging_steps", "monitor.console.every", "metrics.jsonl holds every step"},
          {"logging_strategy", "monitor.console.every", ""},
          {"logging_first_step", "", "the first step is always said"},
          {"logging_dir", "run.dir", "each run's folder holds its logs"},
          {"disable_tqdm", "monitor.console.bar", R"("off")"},
          {"log_level", "", "every rank's log is in the run's folder"},
          {"report_to", "", "metrics.jsonl and summary.json are always written; monitors are tables: [monitor.NAME]"},
          {"skip_memory_metrics", "", "summary.json holds every rank's peak"},
          {"include_tokens_per_second", "", "[monitor.train_speed] says it"},
          {"push_to_hub", "", "the run's folder holds model/, which `hf upload` takes as it is"}};
}

Lines model_variables() {
  return {{"MODEL_NAME", "model.path", "a folder or a hub id"},
          {"VOCAB_SIZE", "model.vocab_size", ""},
          {"HIDDEN_SIZE", "model.hidden_size", ""},
          {"NUM_LAYERS", "model.num_layers", ""},
          {"NUM_HEADS", "model.num_heads", ""},
          {"FF_DIM", "model.ff_dim", ""},
          {"SEQ_LENGTH", "model.seq_length", ""},
          {"MAX_LENGTH", "data.max_length", ""},
          {"TRAIN_SIZE", "data.train_samples", ""},
          {"EVAL_SIZE", "data.eval_samples", ""},
          {"NUM_EPOCHS", "train.epochs", ""},
          {"BATCH_SIZE", "train.micro_batch", "samples a rank computes at once"},
          {"GRAD_ACC", "train.accumulation", ""},
          {"LEARNING_RATE", "optimizer.lr", ""},
          {"WEIGHT_DECAY", "optimizer.weight_decay", ""},
          {"FP16", "train.precision", R"("fp16")"},
          {"BF16", "train.precision", R"("bf16")"},
          {"EXPERIMENT_NAME", "run.name", ""},
          {"OUTPUT_DIR", "run.dir", "each run makes its own folder in it"},
          {"LOG_DIR", "run.dir", "each run's folder holds its logs"}};
}

Lines environment_variables() {
  return {{"WANDB_API_KEY", "", "only wandb's own client reads it, where monitor.wandb.mode is \"online\""},
          {"CONDA_SH_PATH", "", no_python},
          {"CONDA_ENV", "", no_python},
          {"HF_HOME", "", "the variable itself is read: models are looked for in its cache"},
          {"HF_DATASETS_CACHE", "data.cache", "tokenized samples"},
          {"NEMO_DATASETS_CACHE", "data.cache", "tokenized samples"},
          {"NEMO_HOME", "", no_such_cache},
          {"TORCH_HOME", "", no_such_cache},
          {"TRITON_CACHE_DIR", "", "kernels are compiled with the program"},
          {"TMPDIR", "", "files are written where they stay"},
          {"CUDA_VISIBLE_DEVICES", "", "the variable itself is read; each rank takes the GPU of its local rank"},
          {"MASTER_ADDR", "", "srun's ranks find each other; where it is set it is used"},
          {"MASTER_PORT", "", "a free port is taken; where it is set it is used"},
          {"WORLD_SIZE", "", of_the_launcher},
          {"RANK", "", of_the_launcher},
          {"LOCAL_RANK", "", of_the_launcher},
          {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "comm.timeout_s", "a rank that fails ends all, with the first error"},
          {"TORCH_NCCL_BLOCKING_WAIT", "comm.timeout_s", "a collective that takes longer is reported"},
          {"NCCL_ALGO", "", of_nccl},
          {"NCCL_IB_HCA", "", of_nccl},
          {"NCCL_NET_GDR_LEVEL", "", of_nccl},
          {"NCCL_SOCKET_IFNAME", "", of_nccl}};
}

Lines nemo_trainer() {
  return {{"trainer.devices", "", of_the_launcher},
          {"trainer.num_nodes", "", of_the_launcher},
          {"trainer.max_steps", "train.max_steps", ""},
          {"trainer.max_epochs", "train.epochs", ""},
          {"trainer.val_check_interval", "train.eval_every", "in steps"},
          {"trainer.limit_val_batches", "data.eval_samples", "in samples"},
          {"trainer.limit_train_batches", "data.train_samples", "in samples"},
          {"trainer.log_every_n_steps", "monitor.console.every", ""},
          {"trainer.accumulate_grad_batches", "train.accumulation", ""},
          {"trainer.gradient_clip_val", "optimizer.clip", ""},
          {"trainer.precision", "train.precision", R"("bf16-mixed": "bf16")"},
          {"trainer.plugins.precision", "train.precision", R"("bf16-mixed": "bf16")"},
          {"trainer.strategy.tensor_model_parallel_size", "strategy.tensor_parallel.size", ""},
          {"trainer.strategy.expert_model_parallel_size", "strategy.expert_parallel.size", ""},
          {"trainer.strategy.sequence_parallel", "strategy.tensor_parallel.sequence_parallel", ""},
          {"trainer.strategy.pipeline_model_parallel_size", "strategy.pipeline_parallel.size", ""},
          {"trainer.strategy.context_parallel_size", "strategy.context_parallel.size", ""},
          {"trainer.strategy.ddp.overlap_grad_reduce", "", "always so"},
          {"trainer.strategy.ckpt_async_save", "checkpoint.asynchronous", ""}};
}

Lines nemo_rest() {
  return {{"--factory", "model.path", "a recipe is a file: configs/llama31_8b.toml, configs/mixtral_8x7b.toml"},
          {"factory", "model.path", "a recipe is a file: configs/llama31_8b.toml, configs/mixtral_8x7b.toml"},
          {"data.global_batch_size", "train.global_batch", ""},
          {"data.micro_batch_size", "train.micro_batch", ""},
          {"data.seq_length", "data.max_length", ""},
          {"data.num_workers", "", "samples are read one step ahead, while the device computes"},
          {"optim.lr", "optimizer.lr", ""},
          {"optim.config.lr", "optimizer.lr", ""},
          {"optim.config.weight_decay", "optimizer.weight_decay", ""},
          {"optim.config.adam_beta1", "optimizer.betas", "the first of two"},
          {"optim.config.adam_beta2", "optimizer.betas", "the second of two"},
          {"optim.config.clip_grad", "optimizer.clip", ""},
          {"optim.config.bf16", "train.precision", R"("bf16")"},
          {"optim.lr_scheduler.warmup_steps", "optimizer.warmup_steps", ""},
          {"optim.lr_scheduler.max_steps", "train.max_steps", "the schedule ends with the run"},
          {"optim.lr_scheduler.min_lr", "optimizer.min_lr", ""},
          {"optim.lr_scheduler.constant_steps", "", "the schedule ends with the run"},
          {"peft", "strategy.lora", "none: leave the table away, or set enabled = false"},
          {"peft.dim", "strategy.lora.rank", ""},
          {"peft.alpha", "strategy.lora.alpha", ""},
          {"peft.dropout", "strategy.lora.dropout", ""},
          {"peft.target_modules", "strategy.lora.targets", ""},
          {"model.config.num_layers", "model.num_layers", ""},
          {"model.config.hidden_size", "model.hidden_size", ""},
          {"model.config.seq_length", "model.seq_length", ""},
          {"resume.restore_config.path", "model.path", "Hugging Face's folder; nothing is converted"},
          {"resume.resume_if_exists", "checkpoint.resume", R"("auto")"},
          {"log.log_dir", "run.dir", ""},
          {"log.name", "run.name", ""},
          {"log.ckpt.save_top_k", "checkpoint.keep", ""},
          {"log.ckpt.every_n_train_steps", "checkpoint.every_steps", ""},
          {"log.ckpt.monitor", "checkpoint.metric", ""},
          {"log.wandb", "", "metrics.jsonl and summary.json are always written; monitors are tables: [monitor.NAME]"}};
}

// What the workshop's env_vars.sh files and sbatch scripts export.
Lines workshop_variables() { return together(model_variables(), environment_variables()); }

// Hugging Face's TrainingArguments.
Lines training_arguments() {
  auto all = batch_and_length();
  for (const auto& part : {optimizer_lines(), precision_and_speed(), evaluation_and_saving(), names_and_logs()})
    all = together(std::move(all), part);
  return all;
}

// The fsdp_config of TrainingArguments.
Lines fsdp_config() {
  constexpr auto of_units = "every block is a unit; strategy.fsdp.wrap or min_num_params joins them";
  return {{"fsdp_config.sharding_strategy", "strategy.fsdp.mode", R"("full_shard" for FULL_SHARD, and so on)"},
          {"fsdp_config.auto_wrap_policy", "", of_units},
          {"fsdp_config.backward_prefetch", "strategy.fsdp.backward_prefetch", R"("pre", "post" or "none")"},
          {"fsdp_config.forward_prefetch", "strategy.fsdp.forward_prefetch", ""},
          {"fsdp_config.sync_module_states", "strategy.fsdp.sync_module_states", ""},
          {"fsdp_config.limit_all_gathers", "strategy.fsdp.limit_all_gathers", ""},
          {"fsdp_config.reshard_after_forward", "strategy.fsdp.reshard_after_forward", ""},
          {"fsdp_config.transformer_layer_cls_to_wrap", "", of_units},
          {"fsdp_config.min_num_params", "strategy.fsdp.min_num_params", "a block is never divided"},
          {"fsdp_config.fsdp_min_num_params", "strategy.fsdp.min_num_params", "a block is never divided"},
          {"fsdp_config.activation_checkpointing", "strategy.recompute.every", "1 for every block"},
          {"fsdp_config.use_orig_params", "", "parameters keep their shapes and names"},
          {"fsdp_config.cpu_ram_efficient_loading", "", "each rank reads its own part of the files"},
          {"fsdp_config.state_dict_type", "", "checkpoints are of no layout; model/ is whole"},
          {"fsdp_config.fsdp_sharding_strategy", "strategy.fsdp.mode", ""},
          {"fsdp_config.fsdp_offload_params", "strategy.fsdp.cpu_offload", ""},
          {"fsdp_config.fsdp_version", "", "there is one"}};
}

// What follows `nemo llm finetune`: --factory and dotted overrides.
Lines nemo_overrides() { return together(nemo_trainer(), nemo_rest()); }

// Flags of torchrun, accelerate launch and deepspeed, without "--" and with '_' where these take '-' too.
Lines launcher_flags() {
  constexpr auto local =
      "`capstan run C.toml -n N` starts N ranks here; under srun SLURM's --ntasks-per-node counts them";
  constexpr auto nodes = "SLURM's --nodes; srun tells each rank where it is";
  constexpr auto meeting = "ranks find each other; MASTER_ADDR and MASTER_PORT in the environment win";
  return {{"nproc_per_node", "", local},
          {"num_processes", "", local},
          {"num_gpus", "", local},
          {"nnodes", "", nodes},
          {"num_machines", "", nodes},
          {"num_nodes", "", nodes},
          {"node_rank", "", nodes},
          {"machine_rank", "", nodes},
          {"hostfile", "", nodes},
          {"standalone", "", meeting},
          {"rdzv_id", "", meeting},
          {"rdzv_backend", "", meeting},
          {"rdzv_endpoint", "", meeting},
          {"main_process_ip", "", meeting},
          {"main_process_port", "", meeting},
          {"max_restarts", "", "a run that a scheduler queues again continues by itself: docs/slurm.md"},
          {"mixed_precision", "train.precision", R"("bf16" or "fp16")"},
          {"deepspeed_config", "", "`capstan import-deepspeed FILE` prints the TOML"}};
}

Lines deepspeed_lines() {
  Lines out;
  for (const auto& key : deepspeed_keys()) {
    const auto why = key.take == Take::required ? capstan::cat("only ", key.required, ": ", key.why) : key.why;
    out.push_back({key.path, key.ours, why});
  }
  return out;
}

}  // namespace

std::vector<capstan::plugin::Hint> all_hints() {
  std::vector<capstan::plugin::Hint> all;
  const auto add = [&](const char* program, const Lines& lines) {
    for (const auto& line : lines) all.push_back({program, line.key, line.ours, line.why, "docs/from-the-workshop.md"});
  };
  add("env_vars.sh", workshop_variables());
  add("TrainingArguments", training_arguments());
  add("fsdp_config", fsdp_config());
  add("DeepSpeed", deepspeed_lines());
  add("NeMo", nemo_overrides());
  add("launchers", launcher_flags());
  return all;
}

}  // namespace import_deepspeed
