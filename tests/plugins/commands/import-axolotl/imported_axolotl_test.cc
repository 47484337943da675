// What import-axolotl prints is a configuration that `check` accepts, with a small model and rows that are here in the
// places of the file's own.
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "axolotl_file.h"
#include "job/settle.h"
#include "support/folder.h"

namespace imported_axolotl_test {

using namespace capstan;

namespace {

constexpr const char* model = R"([model]
plugin = "llama"
[data]
tokenizer = "byte"
plugin = "jsonl"
)";

// The text without one of its tables.
std::string without(std::string toml, const std::string& head) {
  const auto begin = toml.find("\n" + head + "\n");
  if (begin == std::string::npos) return toml;
  const auto end = toml.find("\n[", begin + 1);
  return toml.erase(begin, end == std::string::npos ? end : end - begin);
}

struct Place {
  std::string rows = R"({"text": "to be learned"})";
  std::string options = {};  ///< of [data]
  int ranks = 1;
};

std::vector<std::string> check(const std::string& members, const Place& place) {
  static plugin::Host host;
  const test::Folder folder;
  auto toml = without(without(test::import_axolotl_text(members).toml, "[model]"), "[data]");
  if (toml.find("\n[run]\n") == std::string::npos) toml += "\n[run]\n";
  toml.replace(toml.find("\n[run]\n"), 7, "\n[run]\ndevice = \"cuda\"\nhost_memory = 100\n");
  folder.write("rows.jsonl", place.rows + "\n" + place.rows + "\n");
  setup::JobRequest request;
  request.file =
      folder.write("a.toml", cat(toml, "\n", model, "train = \"rows.jsonl\"\neval = \"rows.jsonl\"\n", place.options));
  request.world_size = place.ranks;
  Diagnostics faults;
  job::make_job(request, host, faults);
  std::vector<std::string> out;
  for (const auto& one : faults.list()) out.push_back(one.text());
  return out;
}

void check_accepted(const std::string& members, const Place& place = {}) {
  INFO(members << "\n" << test::import_axolotl_text(members).toml);
  CHECK(join(check(members, place), "\n") == "");
}

}  // namespace

TEST_CASE("check accepts batches, lengths, optimizers, schedules, checkpoints and monitors") {
  check_accepted("");
  check_accepted(
      R"("micro_batch_size": 2, "num_epochs": 2, "bf16": "auto", "lr_scheduler": "linear", "warmup_steps": 10)");
  check_accepted(R"("max_steps": 20, "fp16": true, "bf16": false, "lr_scheduler": "cosine_with_restarts",
"lr_scheduler_kwargs": {"num_cycles": 2}, "save_steps": 5, "load_best_model_at_end": true, "greater_is_better": false)");
  check_accepted(R"("optimizer": "muon", "adam_beta1": 0.8, "adam_epsilon": 1e-6, "lr_scheduler": "inverse_sqrt")");
  check_accepted(
      R"("optimizer": "lion_8bit", "lr_scheduler": "constant", "early_stopping_patience": 2, "num_epochs": 5)");
  check_accepted(
      R"("optimizer": "adamw_bnb_8bit", "adam_beta2": 0.95, "max_grad_norm": 0.5, "cosine_min_lr_ratio": 0.1)");
  check_accepted(
      R"("lr_scheduler": "warmup_stable_decay", "lr_scheduler_kwargs": {"num_decay_steps": 2}, "max_steps": 20,
"val_set_size": 0.1, "eval_steps": 5)");
  check_accepted(R"("wandb_project": "p", "use_tensorboard": true, "use_mlflow": true, "logging_steps": 1, "seed": 42,
"auto_resume_from_checkpoints": true, "curriculum_sampling": true, "dataloader_drop_last": true, "eval_batch_size": 2)");
  check_accepted(R"("sample_packing": true, "micro_batch_size": 2, "evals_per_epoch": 4, "val_set_size": 0.1)");
}

TEST_CASE("check accepts adapters, bits, recompute and parallelism") {
  check_accepted(R"("adapter": "qlora", "load_in_4bit": true, "lora_r": 8, "lora_alpha": 16, "lora_dropout": 0.1,
"lora_target_linear": true, "peft_use_rslora": true, "gradient_checkpointing": "offload")");
  check_accepted(
      R"("adapter": "lora", "lora_target_modules": ["q_proj", "down_proj"], "lora_modules_to_save": ["lm_head"],
"gradient_checkpointing": true, "selective_checkpointing": true, "loraplus_lr_ratio": 16, "load_in_8bit": true)");
  check_accepted(R"("adapter": "lora", "lora_target_linear": true, "optimizer": "muon")");
  check_accepted(R"("fsdp": ["full_shard", "auto_wrap"], "fsdp_config": {"offload_params": true,
"cpu_offload_pin_memory": true, "sync_module_states": true, "limit_all_gathers": true, "forward_prefetch": true,
"backward_prefetch": "BACKWARD_POST", "min_num_params": 1000, "activation_checkpointing": true})",
                 {.ranks = 2});
  check_accepted(R"("fsdp_version": 2, "fsdp_config": {"reshard_after_forward": false})", {.ranks = 2});
  check_accepted(
      R"("dp_replicate_size": 2, "dp_shard_size": 2, "fp8": true, "fp8_enable_fsdp_float8_all_gather": true)",
      {.ranks = 4});
  check_accepted(R"("tensor_parallel_size": 2, "context_parallel_size": 2)", {.ranks = 4});
}

TEST_CASE("check accepts preferences") {
  const Place pairs{R"({"prompt": "a", "chosen": "b", "rejected": "c"})", "pairs = true\n"};
  check_accepted(
      R"("rl": "dpo", "rl_beta": 0.2, "dpo_label_smoothing": 0.1, "adapter": "lora", "lora_target_linear": true)",
      pairs);
  check_accepted(R"("rl": "ipo", "trl": {"beta": 0.3})", pairs);
  check_accepted(R"("rl": "orpo", "orpo_alpha": 0.2)", pairs);
  check_accepted(R"("rl": "simpo", "rl_beta": 2, "simpo_gamma": 1, "dpo_label_smoothing": 0.1)", pairs);
}

TEST_CASE("the configuration that imported files are checked with judges them") {
  const auto faults =
      check(R"("adapter": "lora", "lora_target_modules": ["no_such_proj"], "lr_scheduler": "linear")", {});
  CHECK_THAT(join(faults), Contains("no_such_proj"));
  CHECK_THAT(join(check(R"("model_config": {"output_router_logits": true})", {.options = "no_option = 1\n"})),
             Contains("unknown option data.no_option"));
}

}  // namespace imported_axolotl_test
