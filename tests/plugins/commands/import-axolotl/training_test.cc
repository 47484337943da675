#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "axolotl_file.h"

namespace training_test {

using namespace capstan;
using test::axolotl_faults;
using test::import_axolotl_text;

namespace {

std::string toml(const std::string& members) { return import_axolotl_text(members).toml; }

std::string notes(const std::string& members) { return join(import_axolotl_text(members).notes, "\n"); }

std::string choices(const std::string& members) { return join(import_axolotl_text(members).choices, "\n"); }

}  // namespace

TEST_CASE("what axolotl does where a file says nothing is written out, since Capstan's defaults are others") {
  const auto least = toml("");
  for (const char* line :
       {"path = \"org/model\"  # base_model, line 1", "max_length = 512  # axolotl's default",
        "micro_batch = 1  # axolotl's", "accumulation = 1  # axolotl's", "epochs = 1  # axolotl's",
        "precision = \"bf16\"  # axolotl's", "lr = 1e-04  # learning_rate, line 1", "weight_decay = 0.0  # axolotl's",
        "schedule = \"cosine\"  # axolotl's", "warmup_ratio = 0.03  # axolotl's", "warmup_from_zero = true",
        "every_epoch = true  # axolotl's", "keep = 4  # axolotl's"}) {
    INFO(least);
    CHECK_THAT(least, Contains(cat("\n", line)));
  }
  CHECK_THAT(least, !Contains("[strategy."));
  CHECK_THAT(least, !Contains("[monitor."));
}

TEST_CASE("batches are taken over; of packed rows the samples are to be chosen") {
  const auto plain = toml(R"("micro_batch_size": 4, "gradient_accumulation_steps": 8)");
  CHECK_THAT(plain, Contains("\nmicro_batch = 4  # micro_batch_size, line 2\n"));
  CHECK_THAT(plain, Contains("\naccumulation = 8  #"));
  CHECK_THAT(toml(R"("micro_batch_size": 4, "batch_size": 32)"), Contains("\naccumulation = 8  # batch_size"));
  const std::string packed = R"("micro_batch_size": 2, "sample_packing": true, "sequence_len": 4096)";
  CHECK_THAT(toml(packed), Contains("\n# micro_batch = 8  # choose: ") && !Contains("\nmicro_batch ="));
  CHECK_THAT(toml(packed), Contains("\npacking = true"));
  CHECK_THAT(choices(packed),
             Contains("a.yml:2: micro_batch_size: choose train.micro_batch: ") && Contains("hold 8,192 tokens"));
}

TEST_CASE("the run's length is whole epochs, or steps, which go first") {
  CHECK_THAT(toml(R"("num_epochs": 3)"), Contains("\nepochs = 3  # num_epochs, line 2"));
  CHECK_THAT(toml(R"("num_epochs": 0.5)"), Contains("\n# epochs = 1  # choose: "));
  const std::string both = R"("num_epochs": 3, "max_steps": 50)";
  CHECK_THAT(toml(both), Contains("\nmax_steps = 50") && !Contains("epochs = "));
  CHECK_THAT(notes(both), Contains("num_epochs is not taken over: max_steps goes before it"));
  CHECK_THAT(toml(R"("max_steps": 0)"), Contains("\nepochs = 1"));
}

TEST_CASE("precision follows bf16 and fp16 as axolotl does") {
  const std::pair<const char*, const char*> cases[] = {{R"("bf16": "auto")", "bf16"},
                                                       {R"("bf16": true)", "bf16"},
                                                       {R"("bf16": false)", "fp32"},
                                                       {R"("bf16": null)", "fp32"},
                                                       {R"("bf16": false, "fp16": true)", "fp16"},
                                                       {R"("bf16": true, "fp16": true)", "bf16"},
                                                       {R"("bf16": false, "bfloat16": true)", "bf16_pure"}};
  for (const auto& [members, precision] : cases) {
    INFO(members);
    CHECK_THAT(toml(members), Contains(cat("\nprecision = \"", precision, "\"")));
  }
  CHECK_THAT(notes(R"("bf16": true)"), Contains("keeps masters in 32 bits here"));
  CHECK_THAT(notes(R"("bf16": true, "adapter": "lora", "lora_target_linear": true)"),
             !Contains("masters in 32 bits here"));
  CHECK_THAT(toml(R"("fp8": true, "fp8_enable_fsdp_float8_all_gather": true)"),
             Contains("\n[strategy.fp8]\nrecipe = \"tensorwise\"  # fp8, line 2\ngather = \"fp8\""));
}

TEST_CASE("YAML's 2e-5 is a text, and a number to axolotl") {
  CHECK_THAT(toml(R"("learning_rate": "2e-5")"), Contains("\nlr = 2e-05  # learning_rate"));
  CHECK_THAT(join(axolotl_faults(R"("learning_rate": "fast")")),
             Contains("learning_rate is \"fast\", expected a number"));
  CHECK_THAT(join(axolotl_faults(R"("learning_rate": null)")), Contains("learning_rate is not there"));
}

TEST_CASE("optimizers are taken by name, with what is another here said") {
  const std::pair<const char*, const char*> cases[] = {{"adamw_torch_fused", "adamw"},
                                                       {"paged_adamw_32bit", "adamw"},
                                                       {"adamw_bnb_8bit", "adam8bit"},
                                                       {"paged_adamw_8bit", "adam8bit"},
                                                       {"adamw_torch_4bit", "adam8bit"},
                                                       {"lion_8bit", "lion"},
                                                       {"muon", "muon"}};
  for (const auto& [theirs, ours] : cases) {
    INFO(theirs);
    CHECK_THAT(toml(cat(R"("optimizer": ")", theirs, '"')),
               Contains(cat("\n[optimizer]\nplugin = \"", ours, "\"  # optimizer")));
  }
  CHECK_THAT(notes(R"("optimizer": "paged_adamw_8bit")"), Contains("optimizer is paged_adamw_8bit: nothing is paged"));
  CHECK_THAT(notes(R"("optimizer": "adamw_torch_4bit")"), Contains("moments have 8 bits here"));
  CHECK_THAT(join(axolotl_faults(R"("optimizer": "adafactor")")),
             Contains("a.yml:2: optimizer is adafactor, which Capstan does not offer (use adamw_torch"));
}

TEST_CASE("decay rates and epsilon go to the optimizer's own options") {
  CHECK_THAT(toml(R"("adam_beta2": 0.95, "adam_epsilon": 1e-6)"),
             Contains("\nbetas = [0.9, 0.95]  # adam_beta2") && Contains("\neps = 1e-06"));
  CHECK_THAT(toml(R"("optimizer": "muon", "adam_beta1": 0.8, "adam_epsilon": 1e-6)"),
             Contains("\nadamw_betas = [0.8, 0.999]") && Contains("\nadamw_eps = 1e-06"));
  CHECK_THAT(toml(R"("optimizer": "lion_32bit")"), Contains("\nbetas = [0.9, 0.999]  # Hugging Face's default"));
  CHECK_THAT(notes(R"("optimizer": "lion_32bit", "adam_epsilon": 1e-6)"), Contains("Lion has none"));
  CHECK_THAT(toml(R"("max_grad_norm": 0.5, "weight_decay": 0.1)"),
             Contains("\nclip = 0.5") && Contains("\nweight_decay = 0.1  # weight_decay"));
}

TEST_CASE("schedules warm up from zero as Hugging Face's do") {
  CHECK_THAT(toml(R"("warmup_steps": 10)"), Contains("\nwarmup_steps = 10") && !Contains("warmup_ratio"));
  CHECK_THAT(toml(R"("warmup_steps": 1)"), Contains("\nwarmup_steps = 2"));
  CHECK_THAT(toml(R"("warmup_steps": 0.1)"), Contains("\nwarmup_ratio = 0.1  # warmup_steps"));
  CHECK_THAT(toml(R"("warmup_ratio": 0.2, "lr_scheduler": "linear")"),
             Contains("\nschedule = \"linear\"") && Contains("\nwarmup_ratio = 0.2"));
  const std::string constant = R"("lr_scheduler": "constant", "warmup_steps": 10)";
  CHECK_THAT(toml(constant), Contains("\nschedule = \"constant\"") && !Contains("\nwarmup"));
  CHECK_THAT(notes(constant), Contains("which has no warm-up"));
  CHECK_THAT(toml(R"("lr_scheduler": "constant_with_warmup", "warmup_steps": 10)"), Contains("\nwarmup_steps = 10"));
  CHECK_THAT(toml(R"("cosine_min_lr_ratio": 0.1)"), Contains("\nmin_lr = 1e-05  # cosine_min_lr_ratio"));
  CHECK_THAT(toml(R"("lr_scheduler": "cosine_with_restarts", "lr_scheduler_kwargs": {"num_cycles": 3})"),
             Contains("\nschedule = \"cosine_restarts\"") && Contains("\nrestarts = 3"));
  CHECK_THAT(toml(R"("lr_scheduler": "warmup_stable_decay")"), Contains("\n# decay_ratio = 0.1  # choose"));
}

TEST_CASE("schedules that are none here are refused") {
  CHECK_THAT(join(axolotl_faults(R"("lr_scheduler": "rex")")),
             Contains("lr_scheduler is rex, which Capstan does not offer"));
  CHECK_THAT(join(axolotl_faults(R"("lr_scheduler_kwargs": {"power": 2})")),
             Contains("lr_scheduler_kwargs.power has no counterpart"));
  CHECK_THAT(join(axolotl_faults(R"("lr_quadratic_warmup": true)")),
             Contains("a.yml:2: lr_quadratic_warmup has no counterpart in Capstan (remove it to train without)"));
  CHECK(axolotl_faults(R"("lr_quadratic_warmup": false)").empty());
}

TEST_CASE("evaluations and checkpoints: steps are taken over, shares and several an epoch are to be chosen") {
  CHECK_THAT(toml(R"("eval_steps": 50, "val_set_size": 0.1)"), Contains("\neval_every = 50"));
  CHECK_THAT(toml(R"("eval_steps": 0.1, "val_set_size": 0.1)"), Contains("\n# eval_every = 100  # choose"));
  CHECK_THAT(choices(R"("evals_per_epoch": 4, "val_set_size": 0.1)"),
             Contains("choose train.eval_every: ") && Contains("4 times"));
  CHECK_THAT(toml(R"("evals_per_epoch": 1, "val_set_size": 0.1)"), !Contains("eval_every"));
  CHECK_THAT(toml(R"("evals_per_epoch": 4, "val_set_size": 0)"), !Contains("eval_every"));
  CHECK_THAT(toml(R"("save_steps": 100, "save_total_limit": 2)"),
             Contains("\nevery_steps = 100") && Contains("\nkeep = 2") && !Contains("every_epoch"));
  CHECK_THAT(toml(R"("saves_per_epoch": 2)"),
             Contains("\n# every_steps = 100  # choose") && Contains("\nevery_epoch = true"));
  CHECK_THAT(toml(R"("save_strategy": "steps")"), Contains("\nevery_steps = 500") && !Contains("every_epoch"));
  CHECK_THAT(toml(R"("save_strategy": "no")"), !Contains("every_"));
  CHECK_THAT(toml(R"("save_strategy": "best")"), Contains("\nkeep_best = true") && !Contains("every_"));
  CHECK_THAT(
      toml(R"("load_best_model_at_end": true, "metric_for_best_model": "eval_loss", "greater_is_better": false)"),
      Contains("\nfinal_weights = \"best\"") && Contains("\nmetric = \"eval_loss\"") && Contains("\nmode = \"min\""));
  CHECK_THAT(toml(R"("auto_resume_from_checkpoints": true, "early_stopping_patience": 3)"),
             Contains("\nresume = \"auto\"") && Contains("\nstop_after_evals = 3"));
}

TEST_CASE("monitors have tables where axolotl would log") {
  CHECK_THAT(toml(R"("wandb_project": "p", "wandb_name": "n")"), Contains("\n[monitor.wandb]\nenabled = true") &&
                                                                     Contains("\nproject = \"p\"") &&
                                                                     Contains("\nname = \"n\""));
  CHECK_THAT(toml(R"("wandb_project": null, "wandb_name": null)"), !Contains("[monitor.wandb]"));
  CHECK_THAT(toml(R"("wandb_project": "p", "wandb_mode": "disabled")"), !Contains("[monitor.wandb]"));
  CHECK_THAT(toml(R"("wandb_project": "p", "wandb_mode": "online")"), Contains("\nmode = \"online\""));
  CHECK_THAT(
      toml(R"("mlflow_tracking_uri": "runs/mlflow", "mlflow_experiment_name": "e")"),
      Contains("\n[monitor.mlflow]") && Contains("\nfolder = \"runs/mlflow\"") && Contains("\nexperiment = \"e\""));
  CHECK_THAT(toml(R"("mlflow_tracking_uri": "https://host")"), Contains("\n# folder = \"mlruns\"  # choose"));
  CHECK_THAT(toml(R"("use_tensorboard": true, "logging_steps": 5)"),
             Contains("\n[monitor.tensorboard]\nenabled = true") && Contains("\n[monitor.console]\nevery = 5"));
}

}  // namespace training_test
