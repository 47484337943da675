// What the commands say of themselves, of plugins and of options.
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <sstream>
#include <utility>
#include <vector>

#include "end_to_end/program.h"

namespace commands_test {

using namespace end_to_end;
using capstan::ExitCode;

TEST_CASE("every command has help, and a wrong command line says so") {
  const Workspace work;
  const auto help = work.run({"--help"});
  CHECK(help.code == 0);
  for (const std::string command : {"run", "check", "plugins", "reference"}) {
    INFO(command);
    CHECK_THAT(help.out, Contains("\n  " + command + " "));
    const auto own = work.run({command, "--help"});
    CHECK(own.code == 0);
    CHECK(own.err.empty());
    CHECK_THAT(own.out, Contains("capstan " + command));
    CHECK_THAT(own.out, Contains("--help"));
  }
  CHECK_THAT(work.run({"run", "--help"}).out,
             Contains("configuration file (TOML)") && Contains("train.max_steps=250") && Contains("--ranks"));
  const auto version = work.run({"--version"});
  CHECK(version.code == 0);
  CHECK(version.out.starts_with("capstan " + capstan::version()));

  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& words) {
    const auto said = work.run(arguments);
    INFO(said.all());
    CHECK(said.code == static_cast<int>(ExitCode::usage));
    CHECK(said.out.empty());
    CHECK_THAT(said.err, Contains(words));
  };
  refused({}, "A subcommand is required");
  refused({"rnu"}, "there is no command 'rnu'\n    fix: did you mean 'run'?\n");
  refused({"run"}, "config is required");
  refused({"run", "a.toml", "-n", "0"}, "--ranks");
  refused({"run", "a.toml", "--rank", "2"}, "--rank");
}

TEST_CASE("plugins are listed, and each shows its options") {
  const Workspace work;
  const auto list = work.run({"plugins"});
  CHECK(list.code == 0);
  CHECK(list.err.empty());
  const auto folder = (std::filesystem::canonical(binary_dir()) / "lib/capstan/plugins").string();
  for (const auto& [kind, name] : std::vector<std::pair<std::string, std::string>>{{"model", "gpt"},
                                                                                   {"data", "squad"},
                                                                                   {"strategy", "fsdp"},
                                                                                   {"monitor", "console"},
                                                                                   {"monitor", "train_speed"}}) {
    INFO(name);
    bool found = false;
    for (const auto& line : capstan::split(list.out, '\n')) {
      found = found || (line.rfind(kind + " ", 0) == 0 && line.find(" " + name + " ") != std::string::npos &&
                        line.find(capstan::cat(folder, "/", kind, "/", name, ".so")) != std::string::npos);
    }
    CHECK(found);
  }
  CHECK_THAT(list.out, !Contains("cannot be used"));

  const auto fsdp = work.run({"plugins", "fsdp"});
  CHECK(fsdp.code == 0);
  CHECK_THAT(fsdp.out, Contains("Table: [strategy.fsdp]") && Contains("mode") && Contains("\"full_shard\"") &&
                           Contains("one of \"full_shard\", \"shard_grad_op\", \"hybrid_shard\", \"no_shard\""));
  const auto strategies = work.run({"plugins", "strategy"});
  CHECK(strategies.code == 0);
  CHECK_THAT(strategies.out, Contains("strategy  fsdp ") && !Contains("monitor  console"));
  const auto unknown = work.run({"plugins", "fspd"});
  CHECK(unknown.code == static_cast<int>(ExitCode::usage));
  CHECK(unknown.err == "capstan: error\nthere is no plugin 'fspd', nor such a kind\n    fix: did you mean 'fsdp'?\n");
}

TEST_CASE("broken plugins in a plugin path are listed with their reason, and the others still work") {
  const Workspace work;
  const auto folder = std::filesystem::path(broken_plugin("no_entry")).parent_path().parent_path().string();
  const auto list = work.run({"plugins"}, {{"CAPSTAN_PLUGIN_PATH", folder}});
  CHECK(list.code == 0);
  CHECK_THAT(list.out, Contains("cannot be used:\n") && Contains(broken_plugin("no_entry") + ": has no entry"));
  CHECK_THAT(list.out, Contains("fsdp"));
}

TEST_CASE("the reference holds every table and plugin") {
  const Workspace work;
  const auto reference = work.run({"reference"});
  CHECK(reference.code == 0);
  for (const char* heading : {"## [run]", "## [model]", "## [data]", "## [train]", "## [optimizer]", "## [comm]",
                              "### [strategy.fsdp]", "### [monitor.console]", "### [monitor.train_speed]"}) {
    INFO(heading);
    CHECK_THAT(reference.out, Contains(std::string("\n") + heading + "\n"));
  }
  CHECK_THAT(reference.out, Contains("| `max_steps` | integer |"));
}

TEST_CASE("a command that is a plugin: its arguments, exit code, help and errors") {
  const Workspace work;
  const auto folder = binary_dir() / "tests/run_fixtures";
  Variables with{{"CAPSTAN_PLUGIN_PATH", folder.string()}, {"ECHO_SAYS", "something"}};
  const auto echo = work.run({"echo", "a", "--b", "7"}, with);
  CHECK(echo.out == "echo (says what it is told): a, --b, 7 something\n");
  CHECK(echo.code == 7);
  const auto fault = work.run({"echo", "fault"}, with);
  CHECK(fault.err == "capstan: error\nthe argument is 'fault'\n    fix: take another\n");
  CHECK(fault.code == static_cast<int>(ExitCode::usage));
  CHECK_THAT(work.run({"echo", "bug"}, with).err, Contains("while plugin 'echo' (command) ran"));

  const auto help = work.run({"--help"}, with);
  CHECK_THAT(help.out, Contains("echo") && Contains("says what it is told") && Contains("memory") && Contains("run "));
  CHECK_THAT(work.run({"--help"}).out, !Contains("echo"));
  CHECK_THAT(work.run({"memory", "--help"}).out, Contains("peak, average and mode") && Contains("--gpu-only"));
  CHECK_THAT(work.run({"memry"}).err, Contains("there is no command 'memry'") && Contains("did you mean 'memory'?"));
  CHECK_THAT(work.run({"memory", "x", "--cpu"}).err, Contains("--cpu"));
}

TEST_CASE("a command with a table extends the runs whose configuration has it") {
  const Workspace work;
  const Variables with{{"CAPSTAN_PLUGIN_PATH", (binary_dir() / "tests/run_fixtures").string()}};
  const auto file = work.write("a.toml", small_config({{"max_steps", "max_steps = 1"}, {"name", "name = \"a\""}}));
  const auto ran = work.run({"run", file, "gate.code=0"}, with);
  INFO(ran.all());
  CHECK(ran.code == 0);
  const auto before = ran.out.find("gate: before training on cpu, in a\n");
  const auto questions = ran.out.find("gate: questions\n");
  const auto after = ran.out.find("gate: trained, memory was predicted\n");
  REQUIRE(after != std::string::npos);
  CHECK((before < questions && questions < after));
  CHECK_THAT(capstan::read_file(work.folder() / "runs/a/config.toml"), Contains("[gate]\ncode = 0"));
  const auto ended = work.run({"run", file, "gate.code=7"}, with);
  CHECK(ended.code == 7);
  CHECK_THAT(ended.out, !Contains("gate: questions"));
  // Without its table it is not opened; `check` makes it and asks it for faults.
  CHECK_THAT(work.run({"run", file}, with).out, !Contains("gate"));
  CHECK_THAT(work.run({"check", file, "gate.faulty=true"}, with).err,
             Contains("command line: gate.faulty is true\n    fix: leave it out"));
  CHECK_THAT(work.run({"check", file, "gate.cod=3"}, with).err,
             Contains("unknown option gate.cod") && Contains("did you mean 'code'?"));
  CHECK_THAT(work.run({"check", file, "echo.code=3"}, with).err, Contains("unknown table [echo]"));
  CHECK_THAT(work.run({"check", file, "gate.code=3"}).err, Contains("unknown table [gate]"));
}

TEST_CASE("a command that ends a resumed run before training leaves it as it was, and the next one continues it") {
  const Workspace work;
  const Variables with{{"CAPSTAN_PLUGIN_PATH", (binary_dir() / "tests/run_fixtures").string()}};
  const auto file = work.write("a.toml", small_config({{"name", "name = \"a\""}},
                                                      "[checkpoint]\nevery_steps = 2\nkeep = 0\nresume = \"auto\"\n"));
  REQUIRE(work.run({"run", file, "train.max_steps=2"}).code == 0);
  const auto metrics = capstan::read_file(work.folder() / "runs/a/metrics.jsonl");
  CHECK(work.run({"run", file, "train.max_steps=4", "gate.code=7"}, with).code == 7);
  CHECK(capstan::read_file(work.folder() / "runs/a/metrics.jsonl") == metrics);
  const auto continued = work.run({"run", file, "train.max_steps=4", "gate.code=0"}, with);
  INFO(continued.all());
  CHECK(continued.code == 0);
  CHECK_THAT(continued.out, Contains("after step 2 of 4"));
  CHECK(continued.out.find("gate: before training") < continued.out.find("after step 2 of 4"));
}

TEST_CASE(
    "a command's file that cannot be used gets a line in the help, and no file shadows a command of the program") {
  const Workspace work;
  const auto folder = work.folder() / "plugins/command";
  std::filesystem::create_directories(folder);
  work.write("plugins/command/broken.so", "no library");
  std::filesystem::copy(binary_dir() / "tests/run_fixtures/command/echo.so", folder / "run.so");
  const Variables with{{"CAPSTAN_PLUGIN_PATH", (work.folder() / "plugins").string()}};
  const auto help = work.run({"--help"}, with);
  CHECK(help.code == 0);
  CHECK_THAT(help.out, Contains("broken cannot be used: ") && Contains("is no shared library"));
  CHECK_THAT(help.out, !Contains("says what it is told"));
  CHECK_THAT(work.run({"run", "--help"}, with).out, Contains("--spawn-local"));
  const auto broken = work.run({"broken"}, with);
  CHECK(broken.code == static_cast<int>(ExitCode::usage));
  CHECK_THAT(broken.err, Contains("broken.so: is no shared library"));
}

namespace {

// The numbers that lr_find prints: a rate and a loss a line.
std::vector<std::pair<double, double>> rates_and_losses(const Outcome& found) {
  INFO(found.all());
  REQUIRE(found.code == 0);
  std::vector<std::pair<double, double>> all;
  for (const auto& line : capstan::split(found.out, '\n')) {
    std::istringstream numbers(line);
    double rate = 0, loss = 0;
    if (numbers >> rate >> loss) all.emplace_back(rate, loss);
  }
  return all;
}

}  // namespace

TEST_CASE("a command makes a model's steps at rates of its own, which are those that a run makes, and leaves nothing") {
  const Workspace work;
  const Variables with{{"CAPSTAN_PLUGIN_PATH", (binary_dir() / "tests/run_fixtures").string()}};
  const auto file = work.write("a.toml", small_config({{"name", "name = \"a\""}, {"micro_batch", "micro_batch = 3"}},
                                                      "[checkpoint]\nresume = \"auto\"\n"));
  const auto find = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"lr_find", file});
    return rates_and_losses(work.start(arguments, with));
  };
  const auto grown = find({"--steps", "4", "--from", "1e-4", "--to", "1e-1"});
  REQUIRE(grown.size() == 4);
  CHECK(grown[1].first == Approx(1e-3));
  CHECK(grown[3].first == Approx(1e-1));
  CHECK_FALSE(std::filesystem::exists(work.folder() / "runs"));
  const std::vector<std::string> one_rate{"--steps", "3", "--from", "1e-2", "--to", "1e-2"};
  const auto steady = find(one_rate);
  REQUIRE(steady.size() == 3);
  CHECK(steady[0].second == Approx(grown[0].second));  // before any update
  CHECK(steady[2].second != Approx(grown[2].second).epsilon(1e-6));
  auto on_two = one_rate;
  on_two.insert(on_two.end(), {"-n", "2"});
  CHECK(find(on_two)[2].second == Approx(steady[2].second).epsilon(1e-4));

  REQUIRE(
      work.run({"run", file, "train.max_steps=3", "optimizer.schedule=constant", "optimizer.warmup_steps=0"}).code ==
      0);
  std::vector<double> losses;
  for (const auto& line : capstan::split(capstan::read_file(work.folder() / "runs/a/metrics.jsonl"), '\n')) {
    const auto step = line.empty() ? capstan::Json() : capstan::Json::parse(line);
    if (step.contains("grad_norm")) losses.push_back(step.at("loss").get<double>());
  }
  REQUIRE(losses.size() == 3);
  for (std::size_t i = 0; i < losses.size(); ++i) CHECK(steady[i].second == Approx(losses[i]).epsilon(1e-3));
}

}  // namespace commands_test
