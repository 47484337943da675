// `capstan preflight` and the gate as a step of `run`, through the program.
#include <capstan/base/exit_code.h>
#include <capstan_catch.h>

#include <csignal>

#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace preflight_test {

using namespace end_to_end;

namespace {

const std::string quick =
    "[preflight]\nlargest_mib = 1\npair_mib = 1\ngemm_size = 64\ngemm_seconds = 0.01\nwrite_mib = 1\nmin_free_gib = 0\n"
    "gate_mib = 1\ngate_warmup = 1\ngate_iterations = 2\n";

}  // namespace

TEST_CASE("preflight measures, says one line, and leaves preflight.json") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"name", "name = \"a\""}}, quick));
  const auto ran = work.start({"preflight", file, "-n", "3"});
  INFO(ran.all());
  CHECK(ran.code == 0);
  CHECK_THAT(ran.out, Contains("connected 3/3: 3 ranks on 1 node by local, backend gloo, rendezvous 127.0.0.1:"));
  CHECK_THAT(ran.out, Contains("\npreflight: PASS: 3 ranks on 1 host") || Contains("\npreflight: WARN: rank "));
  for (const char* part : {"all-reduce", "reduce-scatter", "all-gather", "pairs, GB/s", "matrix products, TFLOP/s",
                           "writes to run.dir", "links: Gloo over TCP", "versions: Capstan "})
    CHECK_THAT(ran.out, Contains(part));
  const auto folder = work.folder() / "runs" / "a-preflight";
  const auto json = read_json(folder / "preflight.json");
  CHECK(json.at("ranks").size() == 3);
  CHECK(json.at("pairs").size() == 3);
  CHECK(json.at("collectives").size() == 3);
  for (const auto& measured : json.at("collectives")) CHECK(measured.at("wrong").empty());
  CHECK(read_json(folder / "launch.json").at("world_size") == 3);
}

TEST_CASE("preflight judges a single rank") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({}, quick));
  const auto ran = work.run({"preflight", file, "preflight.min_bus_gbps=5"});
  INFO(ran.all());
  CHECK(ran.code == 0);  // no other rank to reduce with
  CHECK_THAT(ran.out, Contains("preflight: PASS: 1 rank on 1 host\n"));
}

TEST_CASE("the gate ends preflight and run with exit code 46 below the threshold") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({}, quick + "before_run = \"gate\"\nmin_bus_gbps = 1e9\n"));
  for (const char* command : {"preflight", "run"}) {
    const auto ran = work.run({command, file, "-n", "3"});
    INFO(ran.all());
    CHECK(ran.code == 46);
    CHECK_THAT(ran.out,
               Contains("Measured AllReduce BW: ") && Contains(" GB/s\n") &&
                   Contains("Bandwidth below threshold – aborting\npreflight: FAIL: all-reduce over all ranks"));
  }
  const auto low = work.run({"run", file, "-n", "3", "preflight.min_bus_gbps=1e-9", "train.max_steps=1"});
  INFO(low.all());
  CHECK(low.code == 0);
  CHECK_THAT(low.out, Contains("Measured AllReduce BW: "));
}

TEST_CASE("a threshold is a gate of the run, whatever else is said; a gate needs a threshold") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"max_steps", "max_steps = 1"}}, quick));
  const auto below = work.run({"run", file, "-n", "3", "preflight.min_bus_gbps=1e9"});
  INFO(below.all());
  CHECK(below.code == 46);
  CHECK_THAT(below.out, Contains("measuring the all-reduce bandwidth, 3 times 1.00 MiB …\nMeasured AllReduce BW: "));
  const auto off = work.run({"run", file, "-n", "3", "preflight.min_bus_gbps=1e9", "preflight.before_run=off"});
  INFO(off.all());
  CHECK(off.code == 0);
  CHECK_THAT(off.out, !Contains("Measured AllReduce BW: "));
  for (const char* command : {"check", "run", "preflight"}) {
    const auto refused = work.run({command, file, "preflight.before_run=gate"});
    INFO(refused.all());
    CHECK(refused.code == static_cast<int>(capstan::ExitCode::usage));
    CHECK_THAT(refused.err, Contains("command line: preflight.before_run is \"gate\", but there is no threshold to "
                                     "measure against\n    fix: set preflight.min_bus_gbps, such as 5"));
  }
}

TEST_CASE("a stop is heard in the pre-flight of a run") {
  const Workspace work;
  const auto file =
      work.write("a.toml", small_config({},
                                        "[preflight]\nmin_bus_gbps = 1e-6\ngate_mib = 64\ngate_iterations = 100000\n"
                                        "[checkpoint]\nevery_steps = 5\n"));
  Program program(work.folder(), {"run", file, "-n", "2", "run.name=a", "train.global_batch=8"});
  REQUIRE(program.wait_for("measuring the all-reduce bandwidth, "));
  program.signal(SIGTERM);
  const auto ended = program.wait(std::chrono::seconds(60));
  INFO(ended.all());
  REQUIRE_FALSE(ended.timed_out);
  CHECK(ended.code == 85);
  CHECK_THAT(ended.err,
             Contains("capstan: stopped by SIGTERM in the pre-flight; exit code 85 asks to be queued again"));
}

TEST_CASE("preflight refuses faults of its own tables, whatever the model's are") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"hidden_size", "hidden_size = 13"}}, quick + "gate = 3\n"));
  const auto ran = work.run({"preflight", file, "-n", "2"});
  CHECK(ran.code == static_cast<int>(capstan::ExitCode::usage));
  CHECK_THAT(ran.err, Contains(work.where(file, "gate = 3") + ": unknown option preflight.gate"));
}

TEST_CASE("a run leaves who ran where and with what in launch.json") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"name", "name = \"a\""}}));
  const auto ran = work.run({"run", file, "-n", "3", "train.max_steps=1"},
                            {{"NCCL_ALGO", "Tree"}, {"CAPSTAN_CACHE", (work.folder() / "cache").string()}});
  INFO(ran.all());
  REQUIRE(ran.code == 0);
  const auto json = read_json(work.folder() / "runs" / "a" / "launch.json");
  CHECK(json.at("backend") == "gloo");
  CHECK(json.at("environment").at("NCCL_ALGO") == "Tree");
  REQUIRE(json.at("ranks").size() == 3);
  CHECK(json.at("ranks")[2].at("threads") >= 1);
  CHECK_FALSE(std::filesystem::is_empty(work.folder() / "cache" / "tokens"));  // the shared cache was used
}

TEST_CASE("-n and --spawn-local where they make no sense") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"device", "device = \"cpu\""}}));
  const auto alone = work.run({"run", file, "--spawn-local"});
  CHECK(alone.code == static_cast<int>(capstan::ExitCode::failure));
  CHECK_THAT(alone.err, Contains("--spawn-local starts one rank a GPU, and this machine shows none") &&
                            Contains("say how many: -n 4"));
  const Variables task{{"SLURM_JOB_ID", "7"},  {"SLURM_STEP_ID", "0"},        {"SLURM_PROCID", "0"},
                       {"SLURM_LOCALID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_NUM_NODES", "1"},
                       {"SLURM_NODEID", "0"},  {"SLURM_STEP_NODELIST", "g1"}, {"SLURM_STEP_TASKS_PER_NODE", "2"}};
  const auto two = work.run({"run", file, "--spawn-local", "-n", "2"}, task);
  CHECK_THAT(two.err, Contains("--spawn-local starts the ranks of a node, but srun has started 2 on g1"));
  auto one = task;
  one["SLURM_STEP_NUM_TASKS"] = one["SLURM_STEP_TASKS_PER_NODE"] = "1";
  const auto hint = work.run({"run", file, "-n", "3"}, one);
  CHECK_THAT(hint.err, Contains("-n 3 starts local ranks, but this process is one of 1 that srun started") &&
                           Contains("or add --spawn-local for that many ranks on each node"));
  const auto spawned = work.run({"run", file, "-n", "3", "--spawn-local", "--verbose", "train.max_steps=1"}, one);
  INFO(spawned.all());
  CHECK(spawned.code == 0);
  CHECK_THAT(spawned.out, Contains("connected 3/3: 3 ranks on 1 node by srun"));
}

TEST_CASE("one rank that cannot start ends the others at once, with its words") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config());
  const Variables first{{"SLURM_JOB_ID", "7"},  {"SLURM_STEP_ID", "0"},        {"SLURM_PROCID", "0"},
                        {"SLURM_LOCALID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_NUM_NODES", "1"},
                        {"SLURM_NODEID", "0"},  {"SLURM_STEP_NODELIST", "g1"}, {"SLURM_STEP_TASKS_PER_NODE", "2"}};
  auto second = first;
  second["SLURM_PROCID"] = second["SLURM_LOCALID"] = "1";
  second["OMP_NUM_THREADS"] = "many";
  Program waits(work.folder(), {"run", file}, first);
  Program fails(work.folder(), {"run", file}, second);
  CHECK(fails.wait(std::chrono::seconds(60)).code == static_cast<int>(capstan::ExitCode::failure));
  const auto told = waits.wait(std::chrono::seconds(60));  // far below comm.connect_timeout_s
  CHECK_FALSE(told.timed_out);
  CHECK(told.code == static_cast<int>(capstan::ExitCode::peer_failed));
  CHECK_FALSE(std::filesystem::exists(work.folder() / "runs" / "rendezvous-7.0.0"));
  CHECK_THAT(told.err,
             Contains("rank 1 on g1 failed: ") && Contains("OMP_NUM_THREADS is 'many', not a number of threads"));
}

}  // namespace preflight_test
