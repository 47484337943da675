#include <capstan/base/text.h>
#include <capstan/decoder/file_keys.h>

#include <utility>

namespace capstan::decoder {
namespace {

using config::FileKey;
using config::FileKeys;
using Keys = std::vector<FileKey>;
using Use = FileKey::Use;

void append(Keys& to, Keys keys) { to.insert(to.end(), keys.begin(), keys.end()); }

const std::vector<std::string> generation{"assistant_confidence_threshold",
                                          "assistant_early_exit",
                                          "assistant_ensemble_weight",
                                          "assistant_lookbehind",
                                          "bad_words_ids",
                                          "begin_suppress_tokens",
                                          "cache_config",
                                          "cache_implementation",
                                          "compile_config",
                                          "constraints",
                                          "continuous_batching_config",
                                          "decoder_start_token_id",
                                          "disable_compile",
                                          "diversity_penalty",
                                          "do_sample",
                                          "dola_layers",
                                          "early_stopping",
                                          "encoder_no_repeat_ngram_size",
                                          "encoder_repetition_penalty",
                                          "epsilon_cutoff",
                                          "eta_cutoff",
                                          "exponential_decay_length_penalty",
                                          "force_words_ids",
                                          "forced_bos_token_id",
                                          "forced_eos_token_id",
                                          "forced_decoder_ids",
                                          "guidance_scale",
                                          "is_assistant",
                                          "length_penalty",
                                          "low_memory",
                                          "max_cache_len",
                                          "max_length",
                                          "max_matching_ngram_size",
                                          "max_new_tokens",
                                          "max_time",
                                          "min_length",
                                          "min_new_tokens",
                                          "min_p",
                                          "no_repeat_ngram_size",
                                          "num_assistant_tokens",
                                          "num_assistant_tokens_schedule",
                                          "num_beam_groups",
                                          "num_beams",
                                          "num_return_sequences",
                                          "output_attentions",
                                          "output_hidden_states",
                                          "output_logits",
                                          "output_scores",
                                          "penalty_alpha",
                                          "prefill_chunk_size",
                                          "prompt_lookup_num_tokens",
                                          "remove_invalid_values",
                                          "renormalize_logits",
                                          "repetition_penalty",
                                          "return_dict_in_generate",
                                          "sequence_bias",
                                          "speculation_type",
                                          "stop_strings",
                                          "suppress_tokens",
                                          "target_lookbehind",
                                          "temperature",
                                          "token_healing",
                                          "top_h",
                                          "top_k",
                                          "top_p",
                                          "typical_p",
                                          "use_cache",
                                          "use_mtp",
                                          "watermarking_config"};

Keys ids() {
  return {{"bos_token_id", Use::used, "the tokenizer's first token, where its own files do not say it"},
          {"eos_token_id", Use::used, "the tokens that end an answer, where the tokenizer's files do not say them"},
          {"pad_token_id", Use::used, "the token of padding, where the tokenizer's files do not say it"}};
}

Keys common() {
  Keys keys = ids();
  append(keys, neutral_keys(
                   {"architectures", "transformers_version", "_name_or_path", "name_or_path", "_commit_hash",
                    "auto_map", "tokenizer_class", "task_specific_params", "prefix", "license", "_from_model_config"},
                   "it says where the files come from and who reads them; model_type says what the model is"));
  append(keys, neutral_keys({"torch_dtype", "dtype"},
                            "each tensor in the files has its dtype; what a run computes in is train.precision"));
  append(keys, neutral_keys({"attn_implementation", "_attn_implementation", "_attn_implementation_autoset",
                             "_attn_implementation_internal", "experts_implementation", "_experts_implementation",
                             "_experts_implementation_internal", "torchscript", "use_bfloat16", "return_dict",
                             "chunk_size_feed_forward", "tf_legacy_loss", "gradient_checkpointing", "pretraining_tp",
                             "use_flash_attention_2", "_flash_attn_2_enabled"},
                            "it says how transformers computes, not what"));
  append(keys, neutral_keys({"id2label", "label2id", "num_labels", "problem_type", "finetuning_task",
                             "classifier_dropout", "unk_token_id", "sep_token_id", "is_decoder", "tie_encoder_decoder",
                             "model_max_length", "max_sequence_length"},
                            "transformers does not read it in a causal language model"));
  append(keys, neutral_keys(generation,
                            "it is for generating: Capstan's answers are set by [train] (temperature, "
                            "max_new_tokens), and an exported model keeps its generation_config.json"));
  keys.push_back({"quantization_config", Use::used, "how packed weights are recognised; a strategy must read them"});
  const std::string other = "such models are not supported: take another model";
  append(keys, only_keys({"is_encoder_decoder", "add_cross_attention", "use_bidirectional_attention"}, "false", other));
  append(keys, only_keys({"is_causal"}, "true", other));
  append(keys, only_keys({"pruned_heads"}, "{}", other));
  for (const char* name : {"per_layer_config", "attention_chunk_size", "cross_attention_hidden_size"})
    keys.push_back({name, Use::refused, other});
  return keys;
}

}  // namespace

Keys neutral_keys(const std::vector<std::string>& names, const std::string& reason) {
  Keys keys;
  for (const auto& name : names) keys.push_back({name, Use::neutral, reason});
  return keys;
}

Keys only_keys(const std::vector<std::string>& names, const std::string& value, const std::string& reason) {
  Keys keys;
  for (const auto& name : names) keys.push_back({name, Use::only, reason, {value}});
  return keys;
}

Keys joined(std::vector<Keys> lists) {
  Keys keys;
  for (auto& list : lists) append(keys, std::move(list));
  return keys;
}

Keys own_names(const std::vector<std::string>& names) {
  return neutral_keys(names, "it is an option's name in Capstan's configuration, which transformers does not read");
}

Keys rotary_keys(const std::set<std::string>& options, const std::string& rope) {
  auto keys = own_names({"num_layers",
                         "num_heads",
                         "num_kv_heads",
                         "ff_dim",
                         "seq_length",
                         "rms_norm_epsilon",
                         "rope_type",
                         "rope_factor",
                         "rope_low_frequency_factor",
                         "rope_high_frequency_factor",
                         "rope_fast_turns",
                         "rope_slow_turns",
                         "rope_whole_limits",
                         "rope_attention_factor",
                         "rope_mscale",
                         "rope_mscale_all",
                         "rope_short_factors",
                         "rope_long_factors",
                         "rope_original_length",
                         "activation",
                         "init_std"});
  const std::string part = "models that turn a part of each head are not supported";
  const bool turns_part = options.contains("partial_rotary_factor");
  if (!turns_part) keys.push_back({"partial_rotary_factor", Use::only, part, {"1"}});
  keys.push_back({"original_max_position_embeddings", Use::used,
                  "the length of the unscaled model, where its rotary table does not say it"});
  for (const auto& table : {std::string("rope_scaling."), rope}) {
    if (!turns_part) keys.push_back({table + "partial_rotary_factor", Use::only, part, {"1"}});
    keys.push_back({table + "finetuned", Use::neutral, "it says how the model was made"});
  }
  return keys;
}

Keys rotary_part_keys() {
  const std::string scaled = "scaled rotary frequencies are not supported in this family";
  Keys keys{{"rope_scaling", Use::refused, scaled}};
  append(keys, only_keys({"rope_parameters.rope_type", "rope_parameters.type"}, "\"default\"", scaled));
  return keys;
}

FileKeys family_keys(const std::string& family, Keys keys) {
  return {
      "config.json of " + family,
      "What transformers writes for this family, besides the options of its plugin and the keys of every config.json.",
      std::move(keys), FileKeys::Unknown::named};
}

FileKeys wrapper_keys(const std::string& family, const std::string& architecture) {
  Keys keys{{"architectures", Use::only, "only this class's text model is read", {cat("[\"", architecture, "\"]")}},
            {"text_config", Use::used, "the options of the text model, which is trained"},
            {"tie_word_embeddings", Use::used, "with the text model's and the files: whether the head is the table"}};
  append(keys, neutral_keys({"vision_config",
                             "audio_config",
                             "image_token_index",
                             "image_token_id",
                             "video_token_id",
                             "audio_token_id",
                             "vision_start_token_id",
                             "vision_end_token_id",
                             "boi_token_index",
                             "eoi_token_index",
                             "boi_token_id",
                             "eoi_token_id",
                             "boa_token_id",
                             "eoa_token_id",
                             "eoa_token_index",
                             "boa_token_index",
                             "mm_tokens_per_image",
                             "projector_hidden_act",
                             "multimodal_projector_bias",
                             "spatial_merge_size",
                             "vision_feature_layer",
                             "vision_soft_tokens_per_image",
                             "audio_soft_tokens_per_image"},
                            "it is of images or sounds, whose tensors are kept as they are"));
  append(keys, neutral_keys({"initializer_range"}, "the text model's own table says it"));
  return {"config.json of " + family,
          cat("transformers writes it with ", architecture, ", a model around the text model of text_config."),
          std::move(keys), FileKeys::Unknown::named};
}

std::vector<FileKeys> file_keys(std::vector<FileKeys> families) {
  auto sampling = ids();
  append(sampling, neutral_keys(generation,
                                "it is for generating: Capstan's answers are set by [train], and an "
                                "exported model keeps the file"));
  append(sampling, neutral_keys({"transformers_version", "_from_model_config", "_commit_hash"},
                                "it says where the file comes from"));
  std::vector<FileKeys> all{{"config.json", "transformers writes it with every model; these keys may stand in each.",
                             common(), FileKeys::Unknown::named},
                            {"generation_config.json", "transformers writes it with models that generate.",
                             std::move(sampling), FileKeys::Unknown::named}};
  all.insert(all.end(), families.begin(), families.end());
  return all;
}

config::Preset rotary_defaults(const RotaryDefaults& family, const config::Preset& more) {
  config::Preset out{{"rms_norm_epsilon", family.epsilon}, {"rope_theta", family.theta},
                     {"seq_length", family.length},        {"rope_type", std::string("default")},
                     {"activation", family.activation},    {"tie_word_embeddings", family.tied},
                     {"attention_dropout", 0.0},           {"init_std", 0.02}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

}  // namespace capstan::decoder
