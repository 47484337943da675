// What the options of checkpoints and of a resume must be: through the program, in `check` and `run`.
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace resume_options_test {

using namespace end_to_end;
using capstan::cat;
using capstan::ExitCode;

namespace fs = std::filesystem;

namespace {

// Three ranks of a sharded run with dropout that saves every second step; the probe is off.
std::string config(const std::string& more = {}) {
  return small_config(
      {{"dropout", "dropout = 0.1"}},
      cat("[strategy.fsdp]\nmode = \"full_shard\"\n[monitor.probe]\nrank = 1\nstep = 5\nhow = \"hang\"\n"
          "path = \"",
          fixture("monitor", "probe"), "\"\n[checkpoint]\nevery_steps = 2\nkeep = 0\n", more));
}

std::vector<std::string> arguments(const std::string& file, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{"run", file, "-n", "3", "run.deterministic=true", "monitor.probe.enabled=false"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("another function, other data and another optimizer are refused by check and run, unless they are accepted") {
  const Workspace work;
  const auto file = work.write("a.toml", config());
  REQUIRE(work.run(arguments(file)).code == 0);
  const auto changed = [&](const std::string& command, const std::vector<std::string>& more) {
    std::vector<std::string> words{command,
                                   file,
                                   "-n",
                                   "3",
                                   "monitor.probe.enabled=false",
                                   "run.name=other",
                                   "checkpoint.resume=runs/small/checkpoints/step-00000004"};
    words.insert(words.end(), more.begin(), more.end());
    return work.run(words);
  };
  auto text = capstan::read_file(source_dir() / "configs/data/mini_squad_train.json");
  const auto data = work.write("same.json", text);
  const auto at = text.find("\"question\": \"");
  REQUIRE(at != std::string::npos);
  text[at + 13] = '?';
  const auto other = work.write("other.json", text);
  for (const std::string command : {"check", "run"}) {
    const auto refused = changed(command, {"model.num_heads=2", "optimizer.clip=2", "optimizer.betas=[0.9,0.95]",
                                           "train.precision=bf16", "data.train=" + other, "data.loss=sequence"});
    INFO(refused.all());
    CHECK(refused.code != 0);
    CHECK_THAT(refused.err, Contains("command line: model.num_heads is 2, but 3 in the checkpoint ") &&
                                Contains("command line: optimizer.clip is 2.0, but 1.0 in the checkpoint ") &&
                                Contains("optimizer.betas is [0.9, 0.95], but [0.9, 0.999] in ") &&
                                Contains("train.precision is \"bf16\", but \"fp32\" in ") &&
                                Contains("data.train is ") &&
                                Contains("data.loss is \"sequence\", but \"answer\" in ") &&
                                Contains("or accept it: checkpoint.accept = [\"model.num_heads\"]"));
  }
  CHECK_FALSE(fs::exists(work.folder() / "runs/other/metrics.jsonl"));
  // The same data elsewhere is the same data.
  const auto moved = changed("check", {"data.train=" + data, "data.eval_samples=3", "optimizer.lr=1e-3"});
  INFO(moved.all());
  CHECK(moved.code == 0);
  const auto accepted = changed("run", {"run.name=accepted", "optimizer.clip=2", "data.train=" + other,
                                        "checkpoint.accept=[\"optimizer.clip\", \"data\"]"});
  INFO(accepted.all());
  CHECK(accepted.code == 0);
  CHECK_THAT(accepted.err,
             Contains("optimizer.clip is 2.0, not 1.0, as checkpoint.accept allows") && Contains("data.train is "));
  CHECK(read_metrics(work.folder() / "runs/accepted").all("step") == std::vector<double>{4, 5, 6, 7});
}

TEST_CASE(
    "checkpoint.resume takes what `capstan checkpoint` takes; else it is said where it stands and what to write") {
  const Workspace work;
  const auto file = work.write("a.toml", config());
  REQUIRE(work.run(arguments(file)).code == 0);
  const auto asked = [&](const std::string& command, const std::string& resume) {
    return work.run({command, file, "-n", "3", "monitor.probe.enabled=false", "checkpoint.resume=" + resume});
  };
  for (const auto& place : {"", "/checkpoints", "/checkpoints/latest", "/checkpoints/step-00000008"}) {
    INFO(place);
    const auto checked = asked("check", std::string("runs/small") + place);
    INFO(checked.all());
    CHECK(checked.code == 0);
  }
  CHECK_THAT(asked("run", "runs/small/checkpoints/latest").out,
             Contains("runs/small/checkpoints/step-00000008, after step 8 of 8\n"));

  for (const auto& [wrong, words] : std::vector<std::pair<std::string, std::string>>{
           {"Auto", "did you mean 'auto'? write auto to continue in this run's own folder, or name a run's folder"},
           {"NONE", "did you mean 'none'? "},
           {"true", "\n    fix: write auto to continue in this run's own folder"},
           {"runs/smal", "runs/small'? "},
           {"runs/small/checkpoints/step-00000009", "runs/small/checkpoints/step-00000009"}}) {
    const auto refused = asked("check", wrong);
    INFO(refused.all());
    CHECK(refused.code == static_cast<int>(ExitCode::usage));
    CHECK_THAT(refused.err, Contains("command line: checkpoint.resume: ") && Contains(words));
  }
  const auto in_file = work.write("b.toml", "extends = \"a.toml\"\n[checkpoint]\nresume = \"latest\"\n");
  const auto refused = work.run({"check", in_file});
  CHECK_THAT(refused.err, Contains(work.where(in_file, "resume = ") + ": checkpoint.resume: there is no "));
}

TEST_CASE("the best checkpoint by the score of answers") {
  const Workspace work;
  const auto file = work.write("a.toml", config());
  const auto ended = work.run(arguments(
      file, {"checkpoint.every_steps=0", "checkpoint.keep_best=true", "checkpoint.metric=eval_f1", "train.eval_every=2",
             "train.generate_each_eval=true", "train.generate_samples=2", "train.max_new_tokens=8"}));
  INFO(ended.all());
  REQUIRE(ended.code == 0);
  const auto best = read_json(work.folder() / "runs/small/summary.json").at("checkpoints").at("best");
  double highest = -1;
  for (const auto& evaluation : read_metrics(work.folder() / "runs/small").evaluations) {
    if (evaluation.at("split") == "eval" && evaluation.contains("f1"))
      highest = std::max(highest, evaluation.at("f1").get<double>());
  }
  CHECK(best.at("value") == highest);
}

TEST_CASE("options of checkpoints in a run that saves none are said to do nothing") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({}, "[checkpoint]\nkeep = 2\n"));
  const char* nothing = " set, but this run saves no checkpoints: add checkpoint.every_minutes = 15";
  const auto err_of = [&](const std::string& command, const std::vector<std::string>& more) {
    std::vector<std::string> words{command, file, "train.max_steps=1"};
    words.insert(words.end(), more.begin(), more.end());
    const auto outcome = work.run(words);
    INFO(outcome.all());
    CHECK(outcome.code == 0);
    return outcome.err;
  };
  const std::string never = "checkpoint.on_interrupt=false";
  CHECK_THAT(err_of("check", {}), Contains("checkpoint.keep is set, but this run saves no checkpoints unless Ctrl-C"));
  CHECK_THAT(err_of("check", {never}), Contains(work.where(file, "keep = ") + ": checkpoint.keep is" + nothing));
  CHECK_THAT(err_of("run", {never, "checkpoint.keep=3", "checkpoint.resume=auto"}),
             Contains(cat("command line: checkpoint.resume is", nothing)));
  CHECK_THAT(err_of("check", {never, "checkpoint.resume=auto"}), Contains("checkpoint.keep, checkpoint.resume are"));
  for (const char* fine : {"checkpoint.keep=3", "checkpoint.every_minutes=15", "checkpoint.keep_best=true",
                           "checkpoint.every_epoch=false"})
    CHECK_THAT(err_of("check", {fine}), !Contains("saves no checkpoints"));
}

TEST_CASE("a run that gets no better ends in order, and its model is that of the best evaluation") {
  const Workspace work;
  // At a rate of 0 all evaluations are equal, and the first one is the best.
  const auto file = work.write("a.toml", small_config({{"lr =", "lr = 0.0\nschedule = \"wsd\"\ndecay_ratio = 0.25"}},
                                                      "[checkpoint]\nkeep_best = true\nfinal_weights = \"best\"\n"
                                                      "resume = \"auto\"\n[strategy.lora]\nrank = 2\n"));
  // The second start finds it at its end.
  for (int i = 0; i < 2; ++i) {
    const auto ended =
        work.run({"run", file, "-n", "2", "train.micro_batch=6", "train.eval_every=1", "train.stop_after_evals=3"});
    INFO(ended.all());
    REQUIRE(ended.code == 0);
    CHECK_THAT(ended.out, Contains("stopped early, after step 4 of 8: eval_loss was no better than ") &&
                              Contains("the final weights are those of the best evaluation, after step 1\n"));
    const auto summary = read_json(work.folder() / "runs/small/summary.json");
    CHECK(summary.at("steps") == 4);
    CHECK(summary.at("weights_step") == 1);
    CHECK(summary.at("evaluations").size() == 4);
  }
}

}  // namespace resume_options_test
