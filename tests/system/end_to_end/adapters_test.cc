// A run with adapters by the program: what it leaves, and what export makes of it.
#include <capstan/checkpoint/safetensors.h>
#include <capstan_catch.h>

#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace adapters_test {

using namespace end_to_end;

namespace {

// Trains the small model, and writes a run, "adapted", that begins with its weights.
std::string on_a_trained_model(const Workspace& work, const std::string& tables) {
  REQUIRE(work.run({"run", work.write("base.toml", small_config())}).code == 0);
  return work.write("a.toml",
                    "extends = \"base.toml\"\n[run]\nname = \"adapted\"\n[model]\npath = \"runs/small/model\"\n"
                    "[data]\ntokenizer = \"byte\"\n" +
                        tables);
}

}  // namespace

TEST_CASE("adapters are saved by themselves, written for peft, and merged into the model", "[lora]") {
  const Workspace work;
  const auto file = on_a_trained_model(
      work,
      "[train]\nglobal_batch = 16\n[checkpoint]\nevery_steps = 4\n[strategy.lora]\nrank = 2\ninit = \"random\"\n"
      "modules_to_save = [\"ln_f\"]\n[strategy.fsdp]\n");
  const auto ended = work.run({"run", file, "-n", "2"});
  INFO(ended.all());
  REQUIRE(ended.code == 0);
  CHECK_THAT(ended.out, Contains("Adding lora to: h.0.attn.linear_qkv and 3 more\n") && Contains("adapter for peft: "));
  const auto run = work.folder() / "runs/adapted";
  CHECK(read_weights(run).count("h.0.attn.linear_qkv.lora_A.weight") == 1);
  CHECK(read_weights(run).count("h.0.ln_1.weight") == 0);  // frozen: model.path has it
  CHECK(read_json(run / "adapter/adapter_config.json").at("r") == 2);

  const auto peft = work.run({"export", "runs/adapted", "--to", "peft", "--out", "peft"});
  INFO(peft.all());
  REQUIRE(peft.code == 0);
  const capstan::checkpoint::SafetensorsFile adapter(work.folder() / "peft/adapter_model.safetensors");
  CHECK(adapter.has("base_model.model.transformer.h.0.attn.c_attn.lora_B.weight"));
  CHECK(adapter.has("base_model.model.transformer.ln_f.bias"));
  CHECK(read_json(work.folder() / "peft/adapter_config.json").at("modules_to_save") == Json{"transformer.ln_f"});

  CHECK_THAT(work.run({"export", "runs/adapted", "--out", "model"}).err,
             Contains("fix: write its adapters with --to peft, or add them into it with --merge"));
  const auto other = work.run({"export", "runs/adapted", "--to", "nonsense"});
  CHECK(other.code == 2);
  CHECK_THAT(other.err,
             Contains("cannot be written as \"nonsense\"\n") && Contains("fix: choose --to hf or --to peft\n"));
  CHECK_THAT(work.run({"export", "runs/small", "--to", "peft"}).err,
             Contains("fix: it is strategy.lora that writes runs so: choose --to hf\n"));
  CHECK_THAT(work.run({"export", "runs/adapted", "--quantization", "bnb-nf4", "--out", "packed"}).err,
             Contains("fix: it is strategy.nf4 that keeps weights so: leave --quantization out"));
  const auto merged = work.run({"export", "runs/adapted", "--merge", "--out", "merged"});
  INFO(merged.all());
  REQUIRE(merged.code == 0);
  const capstan::checkpoint::SafetensorsFile before(run.parent_path() / "small/model/model.safetensors");
  const capstan::checkpoint::SafetensorsFile after(work.folder() / "merged/model.safetensors");
  CHECK(before.tensors().size() == after.tensors().size());
  const auto same = [&](const std::string& name) {
    const auto& info = before.info(name);
    return std::equal(before.bytes(name), before.bytes(name) + (info.end - info.begin), after.bytes(name));
  };
  CHECK_FALSE(same("transformer.h.0.attn.c_attn.weight"));
  CHECK(same("transformer.h.0.ln_1.weight"));
  CHECK(same("transformer.wte.weight"));
  CHECK_FALSE(same("transformer.ln_f.weight"));
}

TEST_CASE("a run with adapters continues with those that were saved, without what it began with", "[lora]") {
  const Workspace work;
  const auto file = on_a_trained_model(
      work, "[checkpoint]\nresume = \"auto\"\nevery_steps = 2\n[strategy.lora]\nrank = 2\nalpha = 6\n");
  const auto check = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"check", file});
    return work.run(more).all();
  };
  CHECK_THAT(check({"strategy.lora.adapter=nowhere"}), Contains("there is no such folder"));
  const auto once = check({"strategy.lora.targets=[\"ln_f\"]"});
  CHECK_THAT(once, Contains("names \"ln_f\", which gets no adapter") && !Contains("faults"));
  REQUIRE(work.run({"run", file, "train.max_steps=2"}).code == 0);
  CHECK_THAT(check({"strategy.lora.alpha=2"}),
             Contains("its adapters are scaled by strategy.lora.alpha = 6.0, the run's "
                      "by strategy.lora.alpha = 2.0") &&
                 Contains("fix: set strategy.lora.alpha = 6.0, or start a new run"));
  CHECK_THAT(check({"strategy.lora.rank_stabilised=true"}), Contains("set strategy.lora.rank_stabilised = false"));
  const auto other_rank = check({"strategy.lora.rank=4"});
  CHECK_THAT(other_rank, Contains("its adapters have rank 2, the run's have 4") &&
                             Contains("fix: set strategy.lora.rank = 2, or start a new run") && !Contains("has shape"));
  const auto gone = work.run({"run", file, "train.max_steps=4", "strategy.lora.adapter=nowhere"});
  INFO(gone.all());
  CHECK(gone.code == 0);
  CHECK_THAT(gone.all(), Contains("resum"));
}

}  // namespace adapters_test
