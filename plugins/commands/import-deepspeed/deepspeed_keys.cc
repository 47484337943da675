#include "deepspeed_keys.h"

#include <capstan/base/text.h>

namespace import_deepspeed {

using capstan::cat;
namespace config = capstan::config;

namespace {

using Keys = std::vector<DeepSpeedKey>;

DeepSpeedKey copied(std::string path, JsonType type, std::string ours, double least = 0, std::string why = {}) {
  return {std::move(path), type, Take::copied, std::move(ours), std::move(why), true, least};
}

DeepSpeedKey above_0(DeepSpeedKey key) {
  key.is_above = true;
  return key;
}

DeepSpeedKey at_most(double most, DeepSpeedKey key) {
  key.most = most;
  return key;
}

DeepSpeedKey required(std::string path, JsonType type, std::string value, std::string why) {
  return {std::move(path), type, Take::required, {}, std::move(why), true, 0, std::move(value)};
}

// An "auto" of Hugging Face for the whole table adds nothing to the values in it.
DeepSpeedKey ignored(std::string path, JsonType type, std::string why) {
  return {std::move(path), type, Take::ignored, {}, std::move(why), true};
}

DeepSpeedKey ignored_table(std::string path, std::string why) {
  return ignored(std::move(path), JsonType::anything, std::move(why));
}

void add(Keys& keys, Keys more) { keys.insert(keys.end(), more.begin(), more.end()); }

Keys training() {
  return {
      copied("train_batch_size", JsonType::integer, "train.global_batch", 1),
      copied("train_micro_batch_size_per_gpu", JsonType::integer, "train.micro_batch", 1),
      copied("gradient_accumulation_steps", JsonType::integer, "train.accumulation", 1),
      copied("gradient_clipping", JsonType::number, "optimizer.clip", 0, "absent: 0, no clipping"),
      {"communication_data_type", JsonType::text, Take::dtype, "strategy.zero.reduce_dtype", "", true},
      ignored("prescale_gradients", JsonType::boolean, "gradients are summed, and divided once by the target tokens"),
      ignored("gradient_predivide_factor", JsonType::number,
              "gradients are summed, and divided once by the target tokens"),
      ignored("sparse_gradients", JsonType::boolean, "gradients are dense"),
      ignored("steps_per_print", JsonType::integer, "see monitor.console.every"),
      ignored("wall_clock_breakdown", JsonType::boolean, "metrics.jsonl holds every step's time"),
      ignored("memory_breakdown", JsonType::boolean, "summary.json holds every rank's peak"),
      ignored("dump_state", JsonType::boolean, "capstan check prints every option"),
      ignored("zero_allow_untested_optimizer", JsonType::boolean, "every optimizer takes every stage"),
      ignored("zero_force_ds_cpu_optimizer", JsonType::boolean, "AdamW has a kernel of its own on the CPU"),
  };
}

Keys optimizer() {
  Keys keys{
      {"optimizer.type", JsonType::text, Take::optimizer, "optimizer.plugin",
       R"("AdamW" and "Adam", which is AdamW there: adamw; "Lion": lion)"},
      copied("optimizer.params.lr", JsonType::number, "optimizer.lr", 0, "absent: 0.001"),
      {"optimizer.params.betas", JsonType::numbers, Take::betas, "optimizer.betas",
       "absent: 0.9, 0.999, for Lion 0.9, 0.99", true},
      above_0(copied("optimizer.params.eps", JsonType::number, "optimizer.eps", 0, "absent: 1e-8")),
      copied("optimizer.params.weight_decay", JsonType::number, "optimizer.weight_decay", 0, "absent: 0"),
      required("optimizer.params.adam_w_mode", JsonType::boolean, "true", "always so"),
      required("optimizer.params.bias_correction", JsonType::boolean, "true", "always so"),
      ignored("optimizer.params.torch_adam", JsonType::boolean, "AdamW is fused"),
      {"optimizer.legacy_fusion", JsonType::boolean, Take::ignored, "", "AdamW is fused"},
      {"scheduler.type", JsonType::text, Take::schedule, "optimizer.schedule",
       "WarmupLR: constant, WarmupDecayLR: linear, WarmupCosineLR: cosine; with optimizer.warmup_from_zero"},
      copied("scheduler.params.warmup_max_lr", JsonType::number, "optimizer.lr", 0,
             "absent: 0.001 for WarmupDecayLR, the optimizer's for the others"),
      copied("scheduler.params.warmup_num_steps", JsonType::integer, "optimizer.warmup_steps", 0, "absent: 1000"),
      copied("scheduler.params.total_num_steps", JsonType::integer, "train.max_steps", 1),
      required("scheduler.params.warmup_min_lr", JsonType::number, "0", "the warm-up starts at 0"),
      required("scheduler.params.warmup_min_ratio", JsonType::number, "0", "the warm-up starts at 0"),
      required("scheduler.params.warmup_type", JsonType::text, "\"linear\"", "the warm-up is linear"),
      at_most(1, {"scheduler.params.cos_min_ratio", JsonType::number, Take::cosine_end, "optimizer.min_lr",
                  "times the learning rate; absent: 0.0001", true}),
  };
  return keys;
}

Keys precision() {
  return {
      {"fp16.enabled", JsonType::boolean, Take::precision, "train.precision", "\"fp16\"", true},
      {"fp16.loss_scale", JsonType::number, Take::loss_scale, "train.loss_scale", "0: \"auto\", dynamic for fp16",
       true},
      {"fp16.initial_scale_power", JsonType::integer, Take::scale_power, "train.loss_scale_init",
       "n: 2^n; for a dynamic scale", true},
      copied("fp16.loss_scale_window", JsonType::integer, "train.loss_scale_window", 1,
             "absent: 1000; for a dynamic scale"),
      above_0(copied("fp16.min_loss_scale", JsonType::number, "train.loss_scale_min", 0, "for a dynamic scale")),
      ignored("fp16.hysteresis", JsonType::integer, "the scale is halved by every step that overflows"),
      ignored("fp16.consecutive_hysteresis", JsonType::boolean, "the scale is halved by every step that overflows"),
      ignored("fp16.auto_cast", JsonType::boolean, "inputs are token ids"),
      required("fp16.fp16_master_weights_and_grads", JsonType::boolean, "false", "masters are fp32"),
      {"bf16.enabled", JsonType::boolean, Take::precision, "train.precision", "\"bf16\"", true},
      ignored("bf16.immediate_grad_update", JsonType::boolean, "a unit's gradients are taken when its backward ends"),
      required("amp.enabled", JsonType::boolean, "false", "there is no Apex"),
      ignored("amp.opt_level", JsonType::text, "there is no Apex"),
      ignored_table("data_types", "gradients are summed in fp32"),
  };
}

Keys zero() {
  const std::string z = "zero_optimization.";
  return {
      {z + "stage", JsonType::integer, Take::copied, "strategy.zero.stage", "absent: 0"},
      {z + "overlap_comm", JsonType::boolean, Take::copied, "strategy.zero.overlap"},
      copied(z + "reduce_bucket_size", JsonType::integer, "strategy.zero.bucket_size", 0,
             "whole units are joined up to it, none is cut"),
      ignored(z + "allgather_bucket_size", JsonType::integer, "one size, reduce_bucket_size's, serves both"),
      ignored(z + "allgather_partitions", JsonType::boolean, "always so"),
      ignored(z + "reduce_scatter", JsonType::boolean, "always so"),
      ignored(z + "contiguous_gradients", JsonType::boolean, "always so"),
      ignored(z + "round_robin_gradients", JsonType::boolean, "every rank updates a part of every unit"),
      {z + "offload_optimizer.device", JsonType::text, Take::offload, "strategy.zero.offload_optimizer",
       "\"nvme\" is refused"},
      {z + "offload_param.device", JsonType::text, Take::offload, "strategy.zero.offload_param",
       "at stage 3 and with offload_optimizer; \"nvme\" is refused"},
      {z + "offload_optimizer.pin_memory", JsonType::boolean, Take::copied, "strategy.zero.pin_memory",
       "true for both where one of them is"},
      {z + "offload_param.pin_memory", JsonType::boolean, Take::copied, "strategy.zero.pin_memory",
       "true for both where one of them is"},
      {z + "cpu_offload", JsonType::boolean, Take::offload_flag, "strategy.zero.offload_optimizer", "the older name"},
      {z + "cpu_offload_params", JsonType::boolean, Take::offload_flag, "strategy.zero.offload_param",
       "the older name"},
      {z + "cpu_offload_use_pin_memory", JsonType::boolean, Take::copied, "strategy.zero.pin_memory", "the older name"},
  };
}

Keys zero_details() {
  const std::string z = "zero_optimization.";
  Keys keys;
  for (const char* part : {"offload_optimizer.", "offload_param."}) {
    add(keys, {ignored(z + part + "buffer_count", JsonType::integer, "buffers follow the buckets"),
               ignored(z + part + "buffer_size", JsonType::integer, "buffers follow the buckets"),
               ignored(z + part + "nvme_path", JsonType::text, "nothing is offloaded to disks")});
  }
  for (const char* flag : {"pipeline_read", "pipeline_write", "fast_init"}) {
    keys.push_back(ignored(z + "offload_optimizer." + flag, JsonType::boolean, "nothing is offloaded to disks"));
  }
  add(keys,
      {at_most(1, above_0({z + "offload_optimizer.ratio", JsonType::number, Take::copied, "strategy.zero.offload_ratio",
                           "in whole buckets"})),
       ignored(z + "offload_param.max_in_cpu", JsonType::integer, "all of them are in host memory"),
       ignored(z + "sub_group_size", JsonType::integer, "the update goes bucket by bucket"),
       ignored(z + "stage3_prefetch_bucket_size", JsonType::integer, "the next bucket is always gathered ahead"),
       ignored(z + "stage3_param_persistence_threshold", JsonType::integer, "small parameters travel with their unit"),
       ignored(z + "stage3_max_live_parameters", JsonType::integer, "a bucket is freed when its unit is done"),
       ignored(z + "stage3_max_reuse_distance", JsonType::integer, "a bucket is freed when its unit is done"),
       ignored(z + "stage3_gather_16bit_weights_on_model_save", JsonType::boolean,
               "every rank writes its part of the final weights"),
       ignored(z + "stage3_gather_fp16_weights_on_model_save", JsonType::boolean,
               "every rank writes its part of the final weights"),
       ignored(z + "ignore_unused_parameters", JsonType::boolean, "every parameter is used"),
       ignored(z + "load_from_fp32_weights", JsonType::boolean, "masters are fp32"),
       ignored(z + "elastic_checkpoint", JsonType::boolean, "weights load on any number of ranks"),
       ignored(z + "legacy_stage1", JsonType::boolean, "there is one stage 1"),
       ignored(z + "use_multi_rank_bucket_allreduce", JsonType::boolean, "gradients are reduce-scattered"),
       ignored(z + "zero_hpz_partition_size", JsonType::integer, "see strategy.fsdp.reshard_size"),
       ignored(z + "mics_shard_size", JsonType::integer, "see strategy.fsdp.mode = \"hybrid_shard\""),
       ignored(z + "mics_hierarchical_params_gather", JsonType::boolean, "see strategy.fsdp.mode = \"hybrid_shard\""),
       required(z + "zero_quantized_weights", JsonType::boolean, "false", "nothing is quantized"),
       required(z + "zero_quantized_gradients", JsonType::boolean, "false", "nothing is quantized")});
  return keys;
}

Keys tables() {
  Keys keys{ignored_table("activation_checkpointing", "see [strategy.recompute]"),
            ignored_table("checkpoint", "it is about DeepSpeed's own files"),
            ignored_table("aio", "nothing is offloaded to disks")};
  for (const char* name : {"tensorboard", "wandb", "csv_monitor", "comet", "flops_profiler", "comms_logger"})
    keys.push_back(ignored_table(name, "monitors have tables of their own: capstan plugins"));
  for (const char* name : {"autotuning", "elasticity"})
    keys.push_back({name, JsonType::anything, Take::off, "", "batch sizes are those of [train]", true});
  return keys;
}

std::string cell(const DeepSpeedKey& key) {
  if (!key.ours.empty()) return cat("`", key.ours, "`", key.why.empty() ? "" : ": ", key.why);
  if (key.take == Take::required) return cat("only `", key.required, "`: ", key.why);
  if (key.take == Take::off) return cat("not with `\"enabled\": true`: ", key.why);
  return cat("not taken over: ", key.why);
}

}  // namespace

bool DeepSpeedKey::takes(double number) const {
  return (is_above ? number > least : number >= least) && (!most || number <= *most);
}

const std::vector<DeepSpeedKey>& deepspeed_keys() {
  static const auto keys = [] {
    Keys all;
    for (const auto& part : {training(), optimizer(), precision(), zero(), zero_details(), tables()}) add(all, part);
    return all;
  }();
  return keys;
}

std::vector<config::FileKeys> deepspeed_file_keys() {
  config::FileKeys table{"a DeepSpeed configuration",
                         "capstan import-deepspeed reads it, and refuses every key that is not in this table.",
                         {}};
  for (const auto& key : deepspeed_keys()) {
    config::FileKey out{key.path, config::FileKey::Use::used, cat(key.ours, key.why.empty() ? "" : ": ", key.why)};
    if (key.take == Take::ignored) out = {key.path, config::FileKey::Use::neutral, key.why};
    if (key.take == Take::required) out = {key.path, config::FileKey::Use::only, key.why, {key.required}};
    if (key.take == Take::off) out = {key.path + ".enabled", config::FileKey::Use::only, key.why, {"false"}};
    table.keys.push_back(std::move(out));
  }
  return {table};
}

std::string deepspeed_keys_markdown() {
  std::string out = "| DeepSpeed's key | ours |\n|---|---|\n";
  for (const auto& key : deepspeed_keys()) out += cat("| `", key.path, "` | ", cell(key), " |\n");
  return out;
}

}  // namespace import_deepspeed
