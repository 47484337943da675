#include "axolotl_keys.h"

namespace import_axolotl {

using imports::JsonType;

namespace {

AxolotlKey copied(std::string path, JsonType type, std::string ours, std::string words = {}) {
  return {std::move(path), type, Take::copied, std::move(ours), std::move(words)};
}

AxolotlKey used(std::string path, JsonType type, std::string ours, std::string words = {}) {
  return {std::move(path), type, Take::used, std::move(ours), std::move(words)};
}

Keys schedule_keys() {
  return {
      used("lr_scheduler", JsonType::text, "optimizer.schedule",
           "cosine, linear, constant, constant_with_warmup, cosine_with_restarts, inverse_sqrt, cosine_with_min_lr, "
           "warmup_stable_decay; others are refused. Absent: cosine"),
      used("lr_scheduler_kwargs", JsonType::anything, "",
           "num_cycles: optimizer.restarts; min_lr, min_lr_rate: optimizer.min_lr; num_decay_steps: "
           "optimizer.decay_steps; others are refused"),
      used("warmup_steps", JsonType::number, "optimizer.warmup_steps",
           "with optimizer.warmup_from_zero; below 1 it is a share; absent, as warmup_ratio: a share of 0.03"),
      used("warmup_ratio", JsonType::number, "optimizer.warmup_ratio", "with optimizer.warmup_from_zero"),
      used("cosine_min_lr_ratio", JsonType::number, "optimizer.min_lr", "times the learning rate"),
  };
}

Keys optimizer_keys() {
  return {
      used("optimizer", JsonType::text, "optimizer.plugin",
           "AdamW in 32 bits, also paged: adamw; in 8 or 4 bits: adam8bit; lion; muon; others are refused"),
      copied("learning_rate", JsonType::number, "optimizer.lr"),
      copied("weight_decay", JsonType::number, "optimizer.weight_decay", "absent: 0"),
      copied("max_grad_norm", JsonType::number, "optimizer.clip", "absent: 1"),
      used("adam_beta1", JsonType::number, "optimizer.betas", "the first of two"),
      used("adam_beta2", JsonType::number, "optimizer.betas", "the second of two"),
      used("adam_epsilon", JsonType::number, "optimizer.eps"),
  };
}

}  // namespace

Keys training_keys() {
  const Keys keys{
      used("base_model", JsonType::text, "model.path"),
      used("revision_of_model", JsonType::text, "model.path", "after an @"),
      used("model_revision", JsonType::text, "model.path", "after an @"),
      used("model_type", JsonType::text, "", "the family is that of config.json; heads that classify are refused"),
      used("type_of_model", JsonType::text, "", "the family is that of config.json; heads that classify are refused"),
      used("tokenizer_config", JsonType::text, "data.tokenizer"),
      used("model_config.output_router_logits", JsonType::boolean, "model.router_aux_loss"),
      used("overrides_of_model_config.output_router_logits", JsonType::boolean, "model.router_aux_loss"),
      used("micro_batch_size", JsonType::integer, "train.micro_batch",
           "with sample_packing axolotl counts packed rows of sequence_len and Capstan samples: to be chosen"),
      copied("gradient_accumulation_steps", JsonType::integer, "train.accumulation", "absent: 1"),
      used("batch_size", JsonType::integer, "train.accumulation", "divided by micro_batch_size"),
      copied("eval_batch_size", JsonType::integer, "train.eval_batch"),
      used("num_epochs", JsonType::number, "train.epochs", "absent: 1; max_steps goes before it"),
      used("max_steps", JsonType::integer, "train.max_steps"),
      copied("seed", JsonType::integer, "run.seed"),
      copied("dataloader_drop_last", JsonType::boolean, "train.drop_last"),
      used("curriculum_sampling", JsonType::boolean, "train.shuffle", "true: false"),
      used("bf16", JsonType::anything, "train.precision", R"(absent or "auto": "bf16")"),
      used("fp16", JsonType::boolean, "train.precision", "\"fp16\""),
      used("bfloat16", JsonType::boolean, "train.precision", "\"bf16_pure\""),
      used("fp8", JsonType::boolean, "strategy.fp8.recipe", "\"tensorwise\""),
      used("fp8_enable_fsdp_float8_all_gather", JsonType::boolean, "strategy.fp8.gather", "\"fp8\""),
  };
  return joined({keys, optimizer_keys(), schedule_keys()});
}

namespace {

Keys row_keys() {
  return {
      used("datasets", JsonType::anything, "data",
           "one: [data]; several: [[data.sources]]. pretraining_dataset and test_datasets have the same keys"),
      used("pretraining_dataset", JsonType::anything, "data.train", "texts"),
      used("test_datasets", JsonType::anything, "data.eval", "files, or another split of the same dataset"),
      used("datasets[].path", JsonType::text, "data.train",
           "a file or folder that is there; else data.dataset, a hub id"),
      used("datasets[].name", JsonType::text, "data.config"),
      used("datasets[].split", JsonType::text, "data.train_split",
           "train[:500]: data.train_samples too; absent: train"),
      used("datasets[].revision", JsonType::text, "data.dataset", "after an @"),
      used("datasets[].data_files", JsonType::texts, "data.train", "one file; of a hub's dataset to be chosen"),
      used(
          "datasets[].type", JsonType::anything, "",
          "alpaca, chat_template, completion, sharegpt, a table of fields, with rl chat_template.default and .argilla; "
          "for others the columns are to be chosen"),
      used("datasets[].field", JsonType::text, "data.columns", "\"text = FIELD\""),
      used("datasets[].text_column", JsonType::text, "data.columns", "\"text = FIELD\""),
      used("datasets[].field_messages", JsonType::text, "data.columns", "\"messages = FIELD\""),
      used("datasets[].message_property_mappings", JsonType::anything, "data.columns",
           "role and content as they are, or as from and value"),
      used("datasets[].message_field_role", JsonType::text, "data.columns", "role or from"),
      used("datasets[].message_field_content", JsonType::text, "data.columns", "content or value"),
      used("datasets[].field_chosen", JsonType::text, "data.columns", "\"chosen = FIELD\""),
      used("datasets[].field_rejected", JsonType::text, "data.columns", "\"rejected = FIELD\""),
      used("datasets[].roles", JsonType::anything, "", "each role's usual names; others are refused"),
      used("datasets[].conversation", JsonType::text, "data.chat_template_file", "the older name of a template"),
      used("datasets[].chat_template", JsonType::text, "data.chat_template"),
      used("datasets[].chat_template_jinja", JsonType::text, "data.chat_template_file"),
      used("datasets[].field_thinking", JsonType::text, "",
           "thinking or reasoning_content, which the template is given; others are refused"),
      used("datasets[].template_thinking_key", JsonType::text, "", "thinking or reasoning_content; others are refused"),
      used("datasets[].roles_to_train", JsonType::texts, "data.loss", "the assistant; others are refused"),
      used("datasets[].train_on_eos", JsonType::text, "", "\"turn\"; others are refused"),
      used("datasets[].train_on_eot", JsonType::text, "", "\"turn\"; others are refused"),
  };
}

}  // namespace

Keys data_keys() {
  const Keys keys{
      used("sequence_len", JsonType::integer, "data.max_length", "absent: 512"),
      used("excess_length_strategy", JsonType::text, "data.too_long",
           "drop, which is axolotl's default; raise: \"error\"; truncate is to be chosen"),
      copied("sample_packing", JsonType::boolean, "data.packing"),
      used("val_set_size", JsonType::number, "data.eval_fraction", "below 1; a number of samples is to be chosen"),
      used("chat_template", JsonType::text, "data.chat_template",
           "tokenizer_default: \"model\"; others: axolotl's own file as data.chat_template_file, where --python has "
           "axolotl; else to be chosen, but chatml and llama3 as data.turn"),
      used("chat_template_jinja", JsonType::text, "data.chat_template_file", "a file; a text is to be saved as one"),
      used("chat_template_kwargs", JsonType::anything, "data.template_variables"),
      used("train_on_inputs", JsonType::boolean, "data.loss", "true: \"sequence\""),
      used("special_tokens", JsonType::anything, "",
           "pad_token changes nothing; another eos_token, bos_token or unk_token than the tokenizer's is to be chosen"),
      used("rl", JsonType::text, "objective.loss", "dpo: \"sigmoid\"; ipo, orpo, simpo; others are refused"),
      used("rl_beta", JsonType::number, "objective.beta"),
      used("trl.beta", JsonType::number, "objective.beta"),
      used("dpo_beta", JsonType::number, "objective.beta"),
      used("dpo_label_smoothing", JsonType::number, "objective.label_smoothing"),
      used("dpo_loss_type", JsonType::texts, "objective.loss", "one of sigmoid, ipo; others are refused"),
      used("orpo_alpha", JsonType::number, "objective.lambda"),
      used("simpo_gamma", JsonType::number, "objective.gamma"),
  };
  return joined({keys, row_keys()});
}

namespace {

Keys fsdp_keys() {
  const std::string f = "fsdp_config.";
  return {
      used("fsdp", JsonType::texts, "strategy.fsdp.mode", "full_shard, shard_grad_op, hybrid_shard, no_shard; offload"),
      used(f + "sharding_strategy", JsonType::text, "strategy.fsdp.mode", "its keys may also begin with fsdp_"),
      used(f + "reshard_after_forward", JsonType::boolean, "strategy.fsdp.reshard_after_forward"),
      copied(f + "offload_params", JsonType::boolean, "strategy.fsdp.cpu_offload"),
      copied(f + "cpu_offload_pin_memory", JsonType::boolean, "strategy.fsdp.pin_memory"),
      copied(f + "sync_module_states", JsonType::boolean, "strategy.fsdp.sync_module_states"),
      copied(f + "limit_all_gathers", JsonType::boolean, "strategy.fsdp.limit_all_gathers"),
      copied(f + "forward_prefetch", JsonType::boolean, "strategy.fsdp.forward_prefetch"),
      used(f + "backward_prefetch", JsonType::text, "strategy.fsdp.backward_prefetch", "BACKWARD_PRE: \"pre\""),
      copied(f + "min_num_params", JsonType::integer, "strategy.fsdp.min_num_params"),
      used(f + "activation_checkpointing", JsonType::boolean, "strategy.recompute.every", "1"),
      used("dp_replicate_size", JsonType::integer, "strategy.fsdp.mode", "above 1: hybrid_shard"),
      used("dp_shard_size", JsonType::integer, "strategy.fsdp.shard_size", "with dp_replicate_size"),
  };
}

Keys adapter_keys() {
  return {
      used("adapter", JsonType::text, "strategy.lora", "lora or qlora; others are refused"),
      used("lora_r", JsonType::integer, "strategy.lora.rank", "absent: 8"),
      used("lora_alpha", JsonType::number, "strategy.lora.alpha"),
      used("lora_dropout", JsonType::number, "strategy.lora.dropout"),
      used("lora_target_linear", JsonType::boolean, "strategy.lora.targets",
           "[\"all-linear\"]; of a mixture also experts and routers"),
      used("lora_target_modules", JsonType::texts, "strategy.lora.targets", "an expression is to be chosen"),
      used("lora_target_parameters", JsonType::texts, "strategy.lora.targets", "experts' matrices: \"experts\""),
      used("lora_modules_to_save", JsonType::texts, "strategy.lora.modules_to_save"),
      used("lora_model_dir", JsonType::text, "strategy.lora.adapter"),
      used("peft_use_rslora", JsonType::boolean, "strategy.lora.rank_stabilised"),
      used("loraplus_lr_ratio", JsonType::number, "optimizer.groups.lora_plus.lr_factor", "of [\"*lora_B*\"]"),
      used("peft_init_lora_weights", JsonType::anything, "strategy.lora.init", "true; others are refused"),
      used("bnb_config_kwargs.bnb_4bit_use_double_quant", JsonType::boolean, "strategy.nf4", "false is refused"),
      used("bnb_config_kwargs.bnb_4bit_quant_type", JsonType::text, "strategy.nf4", "others than nf4 are refused"),
      used("load_in_4bit", JsonType::boolean, "strategy.nf4"),
      used("load_in_8bit", JsonType::boolean, "strategy.fp8.store",
           "bitsandbytes' integers have no counterpart; 8 bits of floating point are to be chosen"),
  };
}

}  // namespace

Keys strategy_keys() {
  const Keys keys{
      used("gradient_checkpointing", JsonType::anything, "strategy.recompute.every",
           "1; \"offload\": strategy.recompute.offload = 1 too"),
      used("activation_offloading", JsonType::anything, "strategy.recompute.offload", "1"),
      used("selective_checkpointing", JsonType::anything, "strategy.recompute.keep_attention", "true"),
      used("tensor_parallel_size", JsonType::integer, "strategy.tensor_parallel.size", "above 1"),
      used("context_parallel_size", JsonType::integer, "strategy.context_parallel.size", "above 1"),
      used("sequence_parallel_degree", JsonType::integer, "strategy.context_parallel.size", "above 1"),
      used("expert_parallel_size", JsonType::integer, "strategy.expert_parallel.size", "above 1"),
      used("deepspeed", JsonType::anything, "strategy.zero", "capstan import-deepspeed translates its JSON"),
  };
  return joined({keys, fsdp_keys(), adapter_keys()});
}

Keys run_keys() {
  return {
      used("output_dir", JsonType::text, "run.dir", "each run makes its own folder in it"),
      used("evals_per_epoch", JsonType::number, "train.eval_every", "1: after each epoch; others are to be chosen"),
      used("eval_steps", JsonType::number, "train.eval_every", "a share of the steps is to be chosen"),
      used("eval_strategy", JsonType::text, "train.eval_every", "epoch: 0"),
      used("evaluation_strategy", JsonType::text, "train.eval_every", "epoch: 0"),
      used("saves_per_epoch", JsonType::number, "checkpoint.every_epoch", "1; others are to be chosen"),
      used("save_steps", JsonType::number, "checkpoint.every_steps", "a share of the steps is to be chosen"),
      used("save_strategy", JsonType::text, "checkpoint.every_epoch",
           "absent: epoch; best: checkpoint.keep_best; no: nothing is saved at intervals"),
      copied("save_total_limit", JsonType::integer, "checkpoint.keep", "absent: 4"),
      used("load_best_model_at_end", JsonType::boolean, "checkpoint.final_weights", "\"best\""),
      used("metric_for_best_model", JsonType::text, "checkpoint.metric", "eval_loss; others are to be chosen"),
      used("greater_is_better", JsonType::boolean, "checkpoint.mode", R"("max" or "min")"),
      copied("early_stopping_patience", JsonType::integer, "train.stop_after_evals"),
      used("auto_resume_from_checkpoints", JsonType::boolean, "checkpoint.resume", "\"auto\""),
      copied("logging_steps", JsonType::integer, "monitor.console.every"),
      used("use_wandb", JsonType::boolean, "monitor.wandb", "also where wandb_project is set"),
      used("wandb_project", JsonType::text, "monitor.wandb.project"),
      used("wandb_name", JsonType::text, "monitor.wandb.name"),
      used("wandb_mode", JsonType::text, "monitor.wandb.mode", "\"disabled\": no table"),
      used("use_mlflow", JsonType::boolean, "monitor.mlflow", "also where mlflow_tracking_uri is set"),
      used("mlflow_tracking_uri", JsonType::text, "monitor.mlflow.folder", "a folder; a server is to be chosen"),
      used("mlflow_experiment_name", JsonType::text, "monitor.mlflow.experiment"),
      used("use_tensorboard", JsonType::boolean, "monitor.tensorboard"),
      used("plugins", JsonType::texts, "",
           "liger, cut_cross_entropy, kernels and loggers: nothing to do; others are refused"),
  };
}

}  // namespace import_axolotl
