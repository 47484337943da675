// One run on one rank, from its first line to what lies in its folder.
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <sstream>

#include <csignal>

#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace run_test {

using namespace end_to_end;
using capstan::ExitCode;

namespace fs = std::filesystem;

namespace {

// The table that check prints, without the origins: "option value".
std::vector<std::string> options_of(const std::string& table) {
  std::vector<std::string> out;
  std::string path;
  for (const auto& line : capstan::split(table.substr(0, table.find("\n\n")), '\n')) {
    const auto key = line.substr(0, line.find("  ", 2));
    if (!line.empty() && line[0] == '[') path = line;
    if (line.rfind("  ", 0) != 0) continue;
    auto rest = line.substr(key.size());
    rest = rest.substr(rest.find_first_not_of(' '));
    out.push_back(path.substr(0, path.find(']')) + "] " + key + " = " + rest.substr(0, rest.find("  ")));
  }
  return out;
}

void check_summary(const Json& summary, const Metrics& metrics) {
  CHECK(summary.at("name") == "small");
  CHECK(summary.at("world_size") == 1);
  CHECK(summary.at("backend") == "none");
  CHECK(summary.at("steps") == 14);
  CHECK(summary.at("steps_per_epoch") == 6);
  CHECK(summary.at("global_batch") == 12);
  CHECK(summary.at("first_loss") == metrics.steps.front().at("loss"));
  CHECK(summary.at("last_loss") == metrics.steps.back().at("loss"));
  CHECK(summary.at("evaluations").size() == 4);
  CHECK(summary.at("answers").size() == 3);
  double start_s = 0;
  for (const auto* phase : {"engine", "device", "ranks", "configuration", "data", "prediction", "token_caches",
                            "preflight", "groups", "parameters", "loop"}) {
    INFO(phase);
    CHECK(summary.at("start_s").at(phase) >= 0);
    start_s += summary.at("start_s").at(phase).get<double>();
  }
  CHECK(summary.at("start_s").size() == 11);
  CHECK(start_s > 0.05);  // LibTorch alone takes longer to open
  const auto& memory = summary.at("peak_memory_bytes");
  REQUIRE(memory.size() == 1);  // one entry a rank
  CHECK(memory[0].at("host") > 10'000'000);
  CHECK(memory[0].at("device") == 0);  // a CPU rank holds nothing on a GPU
}

}  // namespace

TEST_CASE("a run leaves a folder with all that other programs read") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({}, "[monitor.train_speed]\n"));
  const auto ran = work.start({"run", file, "train.max_steps=14", "train.eval_every=6", "train.generate_samples=3",
                               "run.dir=out", "monitor.console.style=capstan"});
  INFO(ran.all());
  REQUIRE(ran.code == 0);
  CHECK(ran.err.empty());
  const auto run = work.folder() / "out" / "small";
  const auto metrics = read_metrics(run);

  // Metrics: an object a step, and one an evaluation.
  REQUIRE(metrics.steps.size() == 14);
  for (std::size_t i = 0; i < metrics.steps.size(); ++i) {
    const auto& step = metrics.steps[i];
    for (const char* key : {"step", "epoch", "loss", "lr", "grad_norm", "tokens", "target_tokens", "step_time_s"}) {
      INFO(key);
      CHECK(step.at(key).is_number());
    }
    CHECK(step.at("step") == i);
    CHECK(step.at("epoch") == i / 6);  // 70 questions in batches of 12
    CHECK(step.at("target_tokens") > 0);
    CHECK(step.at("tokens") > step.at("target_tokens"));
    // train_speed leaves its first step out, and a step's numbers come with the next one.
    CHECK(step.contains("train/samples_per_second") == (i >= 2));
  }
  CHECK(metrics.steps.back().at("loss") < 0.9 * metrics.steps.front().at("loss").get<double>());
  REQUIRE(metrics.evaluations.size() == 4);  // steps 6 and 12, the end, and the answers
  CHECK(metrics.evaluations[0].at("step") == 6);
  CHECK(metrics.evaluations[0].at("samples") == 7);
  CHECK(metrics.evaluations[0].at("loss") > metrics.evaluations[2].at("loss"));
  CHECK(metrics.evaluations[3].at("samples") == 3);
  CHECK(metrics.evaluations[3].at("exact_match").is_number());
  CHECK(metrics.evaluations[3].at("f1").is_number());

  check_summary(read_json(run / "summary.json"), metrics);
  CHECK(fs::exists(run / "logs" / "rank-0.log"));
  const auto weights = read_weights(run);
  CHECK(weights.at("wte.weight").sizes() == at::IntArrayRef({261, 12}));
  std::int64_t elements = 0;
  for (const auto& [name, weight] : weights) elements += weight.numel();
  CHECK(elements == read_json(run / "summary.json").at("parameters"));
  CHECK(read_json(run / "weights" / "manifest.json").at("step") == 14);

  // Console: a line a step in so short a run, the loss and the rate in it, evaluations, the end.
  CHECK(count(ran.out, "/14 | loss ") == 14);
  for (const auto& line : capstan::split(ran.out, '\n')) {
    if (line.starts_with("step ")) CHECK((line.size() <= 100 && line.find(" tokens/s | lr ") != line.npos));
  }
  CHECK_THAT(ran.out, Contains("\nstep  1/14 | loss ") && Contains(" | ETA 0:00 | mem "));
  CHECK(count(ran.out, "{'eval_loss': ") == 3);
  CHECK(count(ran.out, "'eval_exact_match': ") == 1);
  CHECK(count(ran.out, "{'train_runtime': ") == 1);
  CHECK_THAT(ran.out, Contains("Run small: 1 rank, device cpu; 14 steps in all, 6 an epoch\n"));
}

TEST_CASE("what a run says of itself agrees: once, and one meaning under one name") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({}, "[monitor.utilisation]\n"));
  const auto ran = work.run(
      {"run", file, "train.max_steps=4", "train.eval_every=2", "run.dir=out", "monitor.console.style=capstan"});
  INFO(ran.all());
  REQUIRE(ran.code == 0);
  const auto summary = read_json(work.folder() / "out/small/summary.json");
  const auto printed = [&](const std::string& name) {
    const auto at = ran.out.find(name + "': ");
    REQUIRE(at != std::string::npos);
    return std::stod(ran.out.substr(at + name.size() + 3));
  };
  CHECK(printed("'train_runtime") == Approx(summary.at("runtime_s").get<double>()).margin(1e-3));
  CHECK_FALSE(summary.contains("train_runtime_s"));
  CHECK(summary.at("steps_runtime_s") < summary.at("runtime_s"));
  // The peak of the process is one number, wherever it stands.
  const auto peak = summary.at("peak_memory_bytes").at(0).at("host").get<double>() / (1 << 20);
  CHECK(printed("'peak_mem_rss_MB") == Approx(peak).margin(0.5));
  CHECK(printed("'peak_mem_rss_MB") >= printed("'avg_mem_rss_MB"));
  const auto metrics = read_metrics(work.folder() / "out/small");
  for (const auto& step : metrics.steps) {
    CHECK(step.at("steps") == 4);
    if (step.contains("mem_rss_MB")) CHECK(step.at("mem_rss_MB") <= summary.at("peak_mem_rss_MB"));
  }
  for (const char* once : {"out/small\n", "global batch 12 = ", "7,184 parameters"}) {
    INFO(once);
    CHECK(count(ran.out, once) == 1);
  }
  CHECK(count(ran.out, "micro_batch") + count(ran.out, "Parameters: ") == 0);
}

TEST_CASE("a run without a table for it has the console, says so in its configuration, and can do without") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"[monitor.console]", ""}, {"style", ""}}));
  const auto plain = work.run({"run", file, "train.max_steps=2"});
  INFO(plain.all());
  REQUIRE(plain.code == 0);
  CHECK(plain.err.empty());
  CHECK(count(plain.out, "/2 | loss ") == 2);
  CHECK_THAT(plain.out, !Contains("floating-point operations") && !Contains("world 1 = "));
  CHECK_THAT(capstan::read_file(work.folder() / "runs/small/config.toml"),
             Contains("[monitor.console]\nevery = 0\n") && Contains("style = \"capstan\"\n"));
  const auto off = work.run({"run", file, "train.max_steps=2", "monitor.console.enabled=false"});
  CHECK(off.code == 0);
  CHECK(count(off.out, " | loss ") + count(off.out, "train_runtime") == 0);
  // What takes no step has none.
  CHECK_THAT(work.run({"check", file}).out, !Contains("monitor.console"));
  const auto verbose = work.run({"run", file, "-n", "2", "--verbose", "train.max_steps=2", "train.global_batch=8"});
  INFO(verbose.err);
  CHECK(verbose.code == 0);
  CHECK_THAT(verbose.out, Contains("connected 2/2: 2 ranks on 1 node") &&
                              Contains("floating-point operations a token") &&
                              Contains("world 2 = dp 2 x ep 1 x tp 1 on cpu"));
}

TEST_CASE("a run's config.toml gives the same options again") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({}, "[strategy.fsdp]\nmode = \"no_shard\"\n"));
  REQUIRE(work.run({"run", file, "run.dir=runs", "train.max_steps=1", "optimizer.betas=[0.5, 0.75]"}).code == 0);
  const auto first = work.run({"check", file, "run.dir=runs", "train.max_steps=1", "optimizer.betas=[0.5, 0.75]"});
  const auto again = work.run({"check", "runs/small/config.toml"});
  INFO(again.err);
  REQUIRE(again.code == 0);
  const auto options = options_of(first.out);
  CHECK(options.size() > 50);
  CHECK(options_of(again.out) == options);
}

TEST_CASE("check prints each option, its value and where it comes from, and the arithmetic") {
  const Workspace work;
  work.write("base.toml", "[optimizer]\nwarmup_steps = 2\nlr = 3.0\n");
  const auto file =
      work.write("a.toml", "extends = \"base.toml\"\n" + small_config({}, "[strategy.fsdp]\nmode = \"no_shard\"\n"));
  const auto checked = work.run({"check", "a.toml", "optimizer.clip=0.5", "-n", "3"});
  INFO(checked.all());
  REQUIRE(checked.code == 0);
  CHECK(checked.err.empty());
  const auto row = [&](const std::string& key, const std::string& value, const std::string& from) {
    INFO(key << " = " << value << " from " << from);
    bool found = false;
    for (const auto& line : capstan::split(checked.out, '\n')) {
      const auto at = line.rfind("  " + key + " ", 0) == 0 ? line.find(" " + value + " ") : std::string::npos;
      found = found || (at != std::string::npos && capstan::trim(line.substr(at + value.size() + 2)) == from);
    }
    CHECK(found);
  };
  // Files are named as the command line names them.
  const auto line = [&](const std::string& text) {
    return work.where(file, text).substr(work.folder().string().size() + 1);
  };
  row("warmup_steps", "2", "base.toml:2");
  row("lr", "0.01", line("lr ="));
  row("clip", "0.5", "command line");
  row("eps", "1e-08", "default");
  row("hidden_size", "12", line("hidden_size"));
  row("plugin", "\"squad\"", line("\"squad\""));
  row("mode", "\"no_shard\"", line("mode ="));
  row("style", "\"nemo\"", line("style"));
  row("accumulation", "1", "default");
  CHECK_THAT(checked.out, Contains("model gpt: 7,184 parameters = embedding 4,692 + 2 blocks x 1,234 + head 24\n"
                                   "46,008 floating-point operations a token, forward and backward, at 97 tokens\n"
                                   "world 3 = dp 3 x ep 1 x tp 1 on cpu\n"
                                   "3 ranks on 1 node\n"
                                   "global batch 12 = micro-batch 4 x accumulation 1 x data-parallel size 3\n"
                                   "70 training samples, 6 steps an epoch, 8 steps in all\n"
                                   "memory of a rank, without activations:\n"));
  // 7,184 parameters in float32, each weight padded to 64 elements; as many bytes of gradients, twice of AdamW's state.
  const auto table = checked.out.substr(checked.out.find("memory of a rank"));
  const auto part = [&](const std::string& name) {
    std::istringstream words(table.substr(table.find(name) + name.size()));
    std::string device, when;
    double size = 0;
    words >> device >> when >> size;
    return size;
  };
  CHECK(part("parameters") > 4 * 7184 / 1024.0);
  CHECK(part("gradients") == part("parameters"));
  CHECK(part("optimizer state") == Approx(2 * part("parameters")).epsilon(0.01));
  CHECK_THAT(checked.out, Contains("a.toml: no faults found\n"));
  CHECK_FALSE(fs::exists(work.folder() / "runs"));
}

TEST_CASE("a preset gives a model's sizes, and check counts its parameters without memory for them") {
  const Workspace work;
  work.write("a.toml", "[model]\nplugin = \"llama\"\npreset = \"llama3.1-8b\"\n[data]\nplugin = \"squad\"\ntrain = \"" +
                           (source_dir() / "configs/data/mini_squad_train.json").string() +
                           "\"\nmax_length = 512\n[train]\nmax_steps = 1\nmicro_batch = 1\nglobal_batch = 1\n");
  const auto checked = work.run({"check", "a.toml"});
  INFO(checked.all());
  REQUIRE(checked.code == 0);
  CHECK_THAT(checked.out,
             Contains("8,030,261,248 parameters = embedding 525,336,576 + 32 blocks x 218,112,000 + head"));
  const auto wrong = work.run({"check", "a.toml", "model.preset=llama3.1-8"});
  CHECK(wrong.code != 0);
  CHECK_THAT(wrong.err, Contains("model.preset: plugin 'llama' has no preset 'llama3.1-8'\n"
                                 "    fix: did you mean 'llama3.1-8b'?"));
}

TEST_CASE("each run of a name gets a folder of its own") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"max_steps", "max_steps = 2"}}));
  REQUIRE(work.run({"run", file}).code == 0);
  const auto first = capstan::read_file(work.folder() / "runs/small/metrics.jsonl");
  const auto again = work.run({"run", file});
  REQUIRE(again.code == 0);
  CHECK_THAT(again.out, Contains("run folder: runs/small-2\n"));
  CHECK(capstan::read_file(work.folder() / "runs/small/metrics.jsonl") == first);
  // The same seed: the same run.
  CHECK(read_metrics(work.folder() / "runs/small-2").all("loss") ==
        read_metrics(work.folder() / "runs/small").all("loss"));
  CHECK(bit_equal(read_weights(work.folder() / "runs/small-2"), read_weights(work.folder() / "runs/small")));
}

TEST_CASE("a signal stops a run after a whole step, with its weights saved") {
  struct Row {
    int number;
    const char* option;
  };
  const auto [number, option] =
      GENERATE(Row{SIGTERM, "checkpoint.on_interrupt=true"}, Row{SIGINT, "checkpoint.on_interrupt=false"});
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"max_steps", "max_steps = 1000000"}}));
  Program program(work.folder(), {"run", file, "train.eval_every=1000000", option});
  // Lines reach a file while the run continues.
  REQUIRE(program.wait_for("global_step: 3 "));
  CHECK(read_metrics(work.folder() / "runs/small").steps.size() >= 4);
  program.signal(number);
  const auto ended = program.wait();
  INFO(ended.err);
  REQUIRE_FALSE(ended.timed_out);
  CHECK(ended.code == static_cast<int>(ExitCode::interrupted));
  const auto steps = read_metrics(work.folder() / "runs/small").steps.size();
  CHECK_THAT(ended.err, Contains(capstan::cat("capstan: stopped by SIG", sigabbrev_np(number), " after step ", steps,
                                              "; a later run starts from the beginning")));
  CHECK(read_json(work.folder() / "runs/small/summary.json").at("steps") == steps);
  CHECK(read_json(work.folder() / "runs/small/weights/manifest.json").at("step") == steps);
  CHECK(read_weights(work.folder() / "runs/small").size() > 10);
}

TEST_CASE("a failing strategy ends the run with its name, and what was logged stays") {
  const Workspace work;
  const auto file = work.write(
      "a.toml", small_config({}, "[strategy.thrower]\non_rank = 0\nthrow_in = \"after_step\"\nafter = 2\npath = \"" +
                                     fixture("strategy", "thrower") + "\"\n"));
  const auto error = work.run({"run", file});
  CHECK(error.code == static_cast<int>(ExitCode::failure));
  CHECK(error.err ==
        "capstan: error\nno luck in after_step\n    fix: try again\n"
        "    while plugin 'thrower' was in phase after_step of step 2\n");
  CHECK(read_metrics(work.folder() / "runs/small").steps.size() >= 2);  // the third may be on its way
  const auto bug = work.run({"run", file, "strategy.thrower.how=bug"});
  CHECK(bug.code == static_cast<int>(ExitCode::bug));
  CHECK_THAT(bug.err, Contains("this is a bug, please report it") && Contains("wrong in after_step") &&
                          Contains("plugin 'thrower'"));
}

}  // namespace run_test
