#include "axolotl_keys.h"

namespace import_axolotl {

namespace {

Keys neutral(std::string_view names, const std::string& words) { return all_of(Take::neutral, names, words); }
Keys refused(std::string_view names, const std::string& words) { return all_of(Take::refused, names, words); }

Keys neutral_kernels() {
  return joined({
      neutral(
          "flash_attention xformers_attention sdp_attention flex_attention sage_attention eager_attention "
          "attn_implementation flex_attn_compile_kwargs s2_attention sdpa_varlen large_head_attention flash_attn_d512 "
          "flash_attn_cross_entropy flash_attn_fuse_mlp flash_attn_rms_norm flash_optimum fused_attn_kernel "
          "gemma4_hybrid_attn_impl batch_flattening",
          "attention takes the fastest kernel that the model and the device allow"),
      neutral("liger_rope liger_rms_norm liger_rms_norm_gated liger_layer_norm liger_glu_activation liger_swiglu "
              "liger_cross_entropy liger_fused_linear_cross_entropy cut_cross_entropy chunked_cross_entropy "
              "chunked_cross_entropy_num_chunks lora_mlp_kernel lora_qkv_kernel lora_o_kernel lora_embedding_kernel "
              "use_kernels dpo_use_liger_kernel unsloth_lora_mlp unsloth_lora_qkv unsloth_lora_o "
              "unsloth_cross_entropy_loss",
              "operations are fused already, and logits are those of tokens that bear loss"),
      neutral("experts_implementation use_scattermoe use_sonicmoe quantize_moe_experts expert_parallel_num_nvl_bytes "
              "expert_parallel_token_capacity expert_parallel_backend ddp_find_unused_parameters",
              "experts are grouped products, none dropped"),
      neutral("torch_compile torch_compile_backend torch_compile_mode torch_compile_options deepcompile",
              "operations are fused already; micro-steps run as CUDA graphs"),
      neutral(
          "tf32 torch_dtype fp32_norms fp32_norm_classes embeddings_skip_upcast peft_autocast_adapter_dtype float32",
          "matrix products are in train.precision, and masters in 32 bits"),
      neutral("tiled_mlp tiled_mlp_num_shards tiled_mlp_use_original_mlp", "strategy.recompute.tile_tokens does so"),
      neutral(
          "layer_offloading low_cpu_mem_usage gpu_memory_limit max_memory device device_map local_rank world_size ddp "
          "experimental_skip_move_to_device lora_on_cpu qlora_sharded_model_loading",
          "each rank reads its part; strategy.fsdp.cpu_offload and strategy.zero hold parts in host memory"),
  });
}

Keys neutral_strategies() {
  return joined({
      neutral("gradient_checkpointing_kwargs", "each block is run again as it is"),
      neutral("fsdp_version fsdp_config.version fsdp_config.auto_wrap_policy fsdp_config.transformer_layer_cls_to_wrap "
              "fsdp_config.use_orig_params fsdp_config.mixed_precision_policy",
              "every block is a unit; strategy.fsdp.wrap or min_num_params joins them"),
      neutral("fsdp_config.state_dict_type fsdp_config.final_state_dict_type fsdp_final_state_dict_type "
              "fsdp_config.cpu_ram_efficient_loading",
              "checkpoints are of no layout, and each rank reads its own part"),
      neutral("ddp_timeout", "comm.timeout_s does so"),
      neutral(
          "ddp_bucket_cap_mb ddp_broadcast_buffers accelerator_config heads_k_stride ring_attn_func",
          "communication has options of its own: [comm], strategy.zero.bucket_size, strategy.context_parallel.method"),
      neutral("use_ray ray_run_name ray_num_workers resources_per_worker",
              "srun, torchrun, mpirun or `capstan run -n` start the ranks"),
      neutral("bnb_config_kwargs.bnb_4bit_compute_dtype bnb_config_kwargs.bnb_4bit_quant_storage",
              "products are in train.precision"),
      neutral("lora_fan_in_fan_out loraplus_lr_embedding merge_lora merge_method peft_ensure_weight_tying",
              "adapters know their layers; `capstan export RUN --to hf --merge` merges"),
      neutral(
          "gptq_groupsize gptq_model_v1 gptq_disable_exllama pose_split_on_token_ids pose_max_context_len "
          "pose_num_chunks scaling_softmax_factor scaling_softmax_bias eaft_alpha eaft_k adam_epsilon2 adam_beta3 "
          "dion_lr "
          "dion_momentum dion_rank_fraction dion_rank_multiple_of qgalore_rank qgalore_update_proj_gap qgalore_scale "
          "qgalore_proj_type qgalore_proj_quant qgalore_proj_bits qgalore_proj_group_size qgalore_cos_threshold "
          "qgalore_gamma_proj qgalore_queue_size jagged_restart_warmup_steps jagged_restart_anneal_steps "
          "relora_prune_ratio relora_prune_method relora_cpu_offload lisa_layers_attribute max_packed_sequence_len",
          "it belongs to what is refused by the key that turns it on"),
  });
}

Keys neutral_data() {
  return joined({
      neutral("pad_to_sequence_len pad_to_multiple_of",
              "padding is not learned; train.pad_to_multiple sets the columns"),
      neutral("eval_sample_packing sample_packing_group_size sample_packing_bin_size sample_packing_sequentially "
              "sample_packing_mp_start_method sample_packing_eff_est sample_packing_seq_len_multiplier "
              "multipack_real_batches pretrain_multipack_attn pretrain_multipack_buffer_size "
              "streaming_multipack_buffer_size total_num_tokens total_supervised_tokens",
              "samples of a micro-batch fill rows evenly, and each attends only to itself"),
      neutral("group_by_length", "train.sort_by_length does so within a step"),
      neutral("dataset_prepared_path num_dataset_shards_to_save dataset_keep_in_memory push_dataset_to_hub "
              "hf_use_auth_token is_preprocess preprocess_iterable skip_prepare_dataset",
              "data.cache keeps tokenized samples"),
      neutral("dataset_processes dataset_num_proc dataloader_num_workers dataloader_prefetch_factor "
              "dataloader_pin_memory remove_unused_columns streaming",
              "samples are read one step ahead, while the device computes"),
      neutral("shuffle_merged_datasets shuffle_before_merging_datasets", "train.shuffle draws a new order each epoch"),
      neutral("resize_token_embeddings_to_32x mean_resizing_embeddings",
              "no token is added, so the embedding keeps its rows"),
      neutral("eot_tokens", "the template says what ends a turn"),
      neutral("datasets[].ds_type datasets[].trust_remote_code datasets[].preprocess_shards datasets[].type_of_file",
              "a file's name says what it is"),
      neutral("datasets[].field_tools", "a row's tools are read under that name"),
      neutral(
          "tokenizer_type tokenizer_use_fast tokenizer_legacy tokenizer_use_mistral_common "
          "tokenizer_save_jinja_files trust_remote_code base_model_config cls_model_config base_model_ignore_patterns "
          "is_falcon_derived_model is_llama_derived_model is_mistral_derived_model is_qwen_derived_model",
          "config.json and tokenizer.json are read as they are, and no code of a model's folder is run"),
  });
}

Keys neutral_run() {
  return joined({
      neutral("strict debug axolotl_config_path gc_steps gc_collect_steps torch_empty_cache_steps torchdistx_path",
              "it is about axolotl's own program"),
      neutral("save_safetensors save_first_step save_only_model",
              "checkpoints are whole, and the final weights are apart from them"),
      neutral("hub_model_id hub_strategy hub_revision",
              "the run's folder holds model/, which `hf upload` takes as it is"),
      neutral("wandb_entity wandb_run_id", "`wandb sync` takes the entity and the id"),
      neutral("wandb_watch wandb_log_model mlflow_run_name hf_mlflow_log_artifacts",
              "monitors write numbers; run.name is the run's"),
      neutral("use_comet comet_api_key comet_workspace comet_project_name comet_experiment_key comet_mode comet_online "
              "comet_experiment_config use_trackio trackio_project_name trackio_run_name trackio_space_id use_swanlab "
              "swanlab_project swanlab_experiment_name swanlab_description swanlab_mode swanlab_workspace "
              "swanlab_log_model swanlab_log_completions swanlab_completion_log_interval "
              "swanlab_completion_max_buffer use_otel_metrics otel_metrics_host otel_metrics_port",
              "there are [monitor.wandb], mlflow, tensorboard and csv, and metrics.jsonl"),
      neutral(
          "gradio_title gradio_share gradio_server_name gradio_server_port gradio_max_new_tokens gradio_temperature",
          "`capstan generate` answers"),
      neutral("include_tokens_per_second include_tkps", "[monitor.train_speed] says it"),
      neutral("profiler_steps profiler_steps_start", "[monitor.trace] and [monitor.memory_snapshot] do so"),
      neutral("loss_watchdog_threshold loss_watchdog_patience",
              "no loss ends a run; train.on_nonfinite does, and train.stop_after_evals"),
      neutral("do_causal_lm_eval eval_causal_lm_metrics do_bench_eval bench_dataset bench_split eval_table_size "
              "eval_max_new_tokens generate_samples num_generation_samples generation_max_new_tokens "
              "generation_temperature generation_top_p generation_top_k generation_prompt_ratio generation_do_sample",
              "train.generate_samples answers questions, and scores them"),
      neutral("auto_find_batch_size", "`capstan check` says what a rank will need"),
      neutral("precompute_ref_log_probs dpo_padding_free dpo_use_logits_to_keep dpo_generate_during_eval",
              "the objective computes what it needs"),
      neutral("dynamic_checkpoint", "SIGTERM and SIGUSR1 save a checkpoint"),
      neutral("quantization vllm", "for axolotl's other commands"),
  });
}

Keys refused_training() {
  constexpr auto without = "remove it to train without";
  return joined({
      refused("neftune_noise_alpha noisy_embedding_alpha use_eaft scaling_softmax use_pose lr_quadratic_warmup "
              "cosine_constant_lr_ratio jagged_restart_steps relora lisa_n_layers lisa_step_interval qat "
              "optim_target_modules use_dsv4_kernels use_glm_dsa_kernels fix_untrained_tokens min_sample_len "
              "max_prompt_len embedding_lr embedding_lr_scale dataset_exact_deduplication use_onebitllms "
              "dpo_use_weighting dpo_loss_weights rpo_alpha dpo_norm_loss cpo_alpha peft.loftq_config",
              without),
      refused("optim_args", "set the options of [optimizer] yourself, and remove it"),
      refused("lr_groups", "write [optimizer.groups.NAME] with records and lr_factor, and remove it"),
      refused(
          "unfrozen_parameters",
          "parts are frozen only under [strategy.lora], whose modules_to_save trains modules whole; else remove it"),
      refused("lr_div_factor", "set optimizer.min_lr yourself, and remove it"),
      refused("float16", "16-bit weights without masters are only bf16's: write bfloat16: true, or fp16: true"),
      refused("reinit_weights", "[model] preset starts from random weights: write it yourself, and remove this key"),
      refused("rope_scaling overrides_of_model_kwargs model_kwargs", "set [model]'s options yourself, and remove it"),
      refused("trainer_cls", "objectives and strategies are plugins: docs/plugins.md"),
  });
}

Keys refused_models() {
  return joined({
      refused("gptq model_quantization_config model_quantization_config_kwargs llama4_linearized_experts",
              "start from the model in 16 bits; [strategy.nf4] and [strategy.fp8] keep it in fewer"),
      refused("peft_use_dora peft_layers_to_transform peft_layers_pattern peft_layer_replication lora_rank_pattern "
              "lora_alpha_pattern peft_trainable_token_indices",
              "adapters are alike in all layers: name them in lora_target_modules, and remove this key"),
      refused("reward_model process_reward_model center_rewards_coefficient num_labels",
              "train a head that scores with an objective of your own and model.head_values"),
      refused("ebft diffusion llmcompressor",
              "the objectives are causal_lm, distill, dpo and kto, or a plugin of yours"),
      refused("kto_desirable_weight kto_undesirable_weight",
              "write objective.desirable_weight and objective.undesirable_weight by hand, with objective kto"),
      refused("processor_type processor_kwargs image_size image_resize_algorithm freeze_mm_modules role_boundaries",
              "samples are texts; remove it to train the text model, where its family is here"),
      refused("tokens added_tokens_overrides shrink_embeddings",
              "the vocabulary stays that of the model's folder: save a model with the tokens, and start from that"),
      refused("resume_from_checkpoint",
              "axolotl's checkpoints are not read: name its folder as base_model to start from its weights"),
  });
}

Keys refused_data() {
  return joined({
      refused("default_system_message", "save a chat template that says so, and name it as chat_template_jinja"),
      refused("pretraining_sample_concatenation eval_sequence_len",
              "remove it: samples are rows, all of one max_length"),
      refused("dataset_shard_num dataset_shard_idx datasets[].shards datasets[].shards_idx datasets[].skip",
              "write the part of the rows into a file, and name that"),
      refused("datasets[].input_transform datasets[].input_format datasets[].drop_system_message "
              "datasets[].message_field_training datasets[].message_field_training_detail datasets[].split_thinking "
              "datasets[].logprobs_field datasets[].temperature datasets[].step_separator "
              "datasets[].max_completion_length datasets[].train_on_last_step_only datasets[].field_human "
              "datasets[].field_model",
              "write the rows as they are to be learned (docs/data.md), and remove it"),
  });
}

}  // namespace

Keys neutral_keys() { return joined({neutral_kernels(), neutral_strategies(), neutral_data(), neutral_run()}); }

Keys refused_keys() { return joined({refused_training(), refused_models(), refused_data()}); }

}  // namespace import_axolotl
