// What people type in other programs, and what is said of it here.
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <set>

#include "plugins/commands/import-deepspeed/hints.h"

#include "config/document.h"
#include "config/files.h"
#include "plugin/hints.h"

namespace hints_test {

using namespace capstan;

namespace {

std::string hint(const std::string& typed) {
  const auto all = import_deepspeed::all_hints();
  const auto* found = plugin::find_hint(all, typed);
  return found ? plugin::hint_text(*found) : "";
}

struct Train {
  std::int64_t micro_batch = 1;
  static void describe(config::OptionTable<Train>& t) { t.add("micro_batch", &Train::micro_batch).doc(""); }
};

// As the program says them, which opens the plugin's file.
std::vector<std::string> faults_of(const std::string& toml, const std::vector<std::string>& overrides = {}) {
  const test::WorkingFolder files;
  Diagnostics diagnostics;
  const auto document = config::load(files.write("a.toml", toml), overrides, diagnostics);
  const config::Options<Train> train(document.section("train"), diagnostics);
  std::vector<std::string> out;
  plugin::Host host;
  const auto error = plugin::with_hints(Error(diagnostics.list()), host);
  for (const auto& fault : error.diagnostics()) out.push_back(fault.what + " | " + fault.fix);
  return out;
}

}  // namespace

TEST_CASE("a key of another program is found however it is typed") {
  const std::string batch = "did you mean 'train.micro_batch'? (";
  CHECK(hint("per_device_train_batch_size") ==
        batch + "TrainingArguments' per_device_train_batch_size; samples a rank computes at once)");
  CHECK(hint("train.per_device_train_batch_size") == hint("per_device_train_batch_size"));
  CHECK(hint("BATCH_SIZE") == batch + "env_vars.sh's BATCH_SIZE; samples a rank computes at once)");
  CHECK(hint("train.batch_size") == hint("BATCH_SIZE"));
  CHECK(hint("train_micro_batch_size_per_gpu") == batch + "DeepSpeed's train_micro_batch_size_per_gpu)");
  CHECK(hint("trainer.strategy.tensor_model_parallel_size") ==
        "did you mean 'strategy.tensor_parallel.size'? (NeMo's trainer.strategy.tensor_model_parallel_size)");
  CHECK(hint("strategy.tensor_parallel.tensor_model_parallel_size") ==
        hint("trainer.strategy.tensor_model_parallel_size"));
  CHECK(
      hint("strategy.fsdp.transformer_layer_cls_to_wrap") ==
      "not needed, fsdp_config's fsdp_config.transformer_layer_cls_to_wrap: every block is a unit; strategy.fsdp.wrap "
      "or min_num_params joins them");
  CHECK(hint("zero_optimization.stage") ==
        "did you mean 'strategy.zero.stage'? (DeepSpeed's zero_optimization.stage; absent: 0)");
  CHECK(hint("nproc_per_node") ==
        "not needed, launchers' nproc_per_node: `capstan run C.toml -n N` starts N ranks here; under srun SLURM's "
        "--ntasks-per-node counts them");
  CHECK(hint("train.stage") == hint("zero_optimization.stage"));
}

TEST_CASE("what could be several things, or belongs to nothing, gets no such hint") {
  CHECK(hint("train.enabled") == "");  // could be fp16's, bf16's, …
  CHECK(hint("lora.rank") == "");      // no environment's RANK
  CHECK(hint("train.micro_batches") == "");
  CHECK(hint("") == "");
}

TEST_CASE("each key has one answer, with a reason where it is none") {
  std::set<std::pair<std::string, std::string>> seen;
  const auto all = import_deepspeed::all_hints();
  for (const auto& key : all) {
    INFO(key.program << " " << key.key);
    CHECK(seen.emplace(key.program, key.key).second);
    CHECK((!key.ours.empty() || !key.why.empty()));
    const auto* found = plugin::find_hint(all, key.key);
    REQUIRE(found);
    CHECK(found->ours == key.ours);
  }
}

TEST_CASE("typed in a file: in a table of ours, in a table of theirs, in none") {
  CHECK(
      faults_of("learning_rate = 5e-5\n[train]\ngradient_accumulation_steps = 4\n[trainer]\nmax_steps = 250\n"
                "surprise = 1\n[trainer.strategy]\nexpert_model_parallel_size = 2\n[zero_optimization]\nstage = 2\n") ==
      std::vector<std::string>{
          "learning_rate stands outside of any table | did you mean 'optimizer.lr'? (TrainingArguments' learning_rate)",
          "unknown table [trainer] | it is NeMo's; docs/from-the-workshop.md has what its keys are here",
          "unknown option trainer.max_steps | did you mean 'train.max_steps'? (NeMo's trainer.max_steps)",
          ("unknown option trainer.strategy.expert_model_parallel_size | did you mean 'strategy.expert_parallel.size'? "
           "(NeMo's trainer.strategy.expert_model_parallel_size)"),
          "unknown table [zero_optimization] | it is DeepSpeed's; docs/from-the-workshop.md has what its keys are here",
          ("unknown option zero_optimization.stage | did you mean 'strategy.zero.stage'? (DeepSpeed's "
           "zero_optimization.stage; absent: 0)"),
          ("unknown option train.gradient_accumulation_steps | did you mean 'train.accumulation'? (TrainingArguments' "
           "gradient_accumulation_steps; or give train.global_batch and leave it out)")});
}

TEST_CASE("typed on the command line, with and without a table") {
  CHECK(
      faults_of("[train]\n", {"GRAD_ACC=4", "optim.lr=1e-4", "peft=none", "train.fp16=true", "nonsense=1"}) ==
      std::vector<std::string>{
          "'GRAD_ACC=4' names no option of a table | did you mean 'train.accumulation'? (env_vars.sh's GRAD_ACC)",
          ("'peft=none' names no option of a table | did you mean 'strategy.lora'? (NeMo's peft; none: leave the table "
           "away, or set enabled = false)"),
          "'nonsense=1' names no option of a table | write it as table.option=value, for example train.max_steps=250",
          "unknown table [optim] in optim.lr | did you mean 'optimizer.lr'? (NeMo's optim.lr)",
          "unknown option train.fp16 | did you mean 'train.precision'? (TrainingArguments' fp16; \"fp16\")"});
}

TEST_CASE("typed as a flag, with a value or without, with '-' or '_'") {
  const auto faults = plugin::flag_faults(
      {"run", "a.toml", "--learning_rate=5e-5", "--nproc-per-node", "4", "--factory", "--surprise", "seed"},
      import_deepspeed::all_hints());
  REQUIRE(faults.size() == 3);
  CHECK(faults.list()[0].text() ==
        "command line: there is no flag --learning_rate: an option is set as table.option=value\n    fix: did you mean "
        "'optimizer.lr'? (TrainingArguments' learning_rate)");
  CHECK_THAT(faults.list()[1].fix, Contains("launchers' nproc_per_node"));
  CHECK_THAT(faults.list()[2].fix, Contains("NeMo's --factory"));
}

}  // namespace hints_test
