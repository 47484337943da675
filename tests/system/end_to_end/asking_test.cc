// What people ask about memory and time, of a run's folder or of other tools' logs: memory, trace, top.
#include <capstan/base/files.h>
#include <capstan_catch.h>
#include <sys/resource.h>

#include <csignal>

#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace asking_test {

using namespace end_to_end;
using Catch::Matchers::StartsWith;
namespace fs = std::filesystem;

namespace {

const std::string by_name =
    "timestamp, index, name, memory.used [MiB], memory.total [MiB]\n"
    "2025/12/05 10:34:24.123, 0, NVIDIA A100-SXM4-40GB, 16273 MiB, 40960 MiB\n"
    "2025/12/05 10:34:24.125, 1, NVIDIA A100-SXM4-40GB, 7 MiB, 40960 MiB\n"
    "2025/12/05 10:34:29.123, 0, NVIDIA A100-SXM4-40GB, 1 MiB, 40960 MiB\n"
    "2025/12/05 10:34:29.125, 1, NVIDIA A100-SXM4-40GB, 9 MiB, 40960 MiB\n"
    "2025/12/05 10:34:34.123, 0, NVIDIA A100-SXM4-40GB, 1 MiB, 40960 MiB\n";

const std::string by_utilisation =
    "timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB]\n"
    "2025/12/05 10:34:24.123, 0, 77 %, 10 MiB, 143771 MiB\n"
    "2025/12/05 10:34:29.123, 0, 78 %, 30 MiB, 143771 MiB\n";

const std::string of_psrecord =
    "# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)\n"
    "       0.000        0.000     2145.200     9000.000\n"
    "       5.000      101.500     2176.900     9000.000\n"
    "      10.000      101.500     2144.800     9000.000\n"
    "      15.000      101.500     2177.100     9000.000\n"
    "      20.000      101.500     3892.000     9000.000\n";

const std::string gpu_block =
    "GPU Memory Usage\n"
    "[gpu_memory_log - GPU 0] Peak = 16273 MiB, Avg = 5425.00 MiB, Mode = 1 MiB\n"
    "[gpu_memory_log - GPU 1] Peak = 9 MiB, Avg = 8.00 MiB, Mode = 7, 9 MiB\n";
const std::string cpu_block =
    "CPU Memory Usage\n"
    "   Peak =    3892 MB\n"
    "   Average = 2507.20 MB\n"
    "   Mode =    2145, 2177 MB\n";

}  // namespace

TEST_CASE("memory: nvidia-smi's and psrecord's own files, both column forms, ties, only one kind") {
  const Workspace work;
  work.write("gpu.csv", by_name);
  work.write("util.csv", by_utilisation);
  work.write("cpu.txt", of_psrecord);
  CHECK(work.run({"memory", "gpu.csv", "cpu.txt"}).out == gpu_block + "\n" + cpu_block);
  CHECK(work.run({"memory", "gpu.csv", "cpu.txt", "--gpu-only"}).out == gpu_block);
  CHECK(work.run({"memory", "gpu.csv", "cpu.txt", "--cpu-only"}).out == cpu_block);
  CHECK(work.run({"memory", "util.csv"}).out ==
        "GPU Memory Usage\n[gpu_memory_log - GPU 0] Peak = 30 MiB, Avg = 20.00 MiB, Mode = 10, 30 MiB\n");
  const auto three = work.run({"memory", "gpu.csv", "util.csv", "cpu.txt"});
  CHECK_THAT(three.out, Contains("GPU Memory Usage (gpu.csv)\n") && Contains("GPU Memory Usage (util.csv)\n"));
}

TEST_CASE("memory: one error that says what is wrong with what was given") {
  const Workspace work;
  work.write("gpu.csv", by_name + "hello\n");
  fs::create_directory(work.folder() / "empty");
  const auto expect = [&](const std::vector<std::string>& arguments, const std::string& what, const std::string& fix) {
    const auto ran = work.run(arguments);
    INFO(ran.all());
    CHECK(ran.code == 2);
    CHECK(ran.out.empty());
    CHECK_THAT(ran.err, Contains(what) && Contains(fix));
  };
  expect({"memory", "gpu.csv"}, "gpu.csv:7", "nvidia-smi --query-gpu=");
  work.write("no-log", "{\"a\":1}");
  expect({"memory", "no-log"}, "no-log: it holds no sample of memory", "nvidia-smi or psrecord");
  work.write("negative.csv", "timestamp, index, memory.used [MiB]\n2026/01/01 00:00:00.000, 0, -5 MiB\n");
  expect({"memory", "negative.csv"}, "negative.csv:2", "nvidia-smi --query-gpu=");
  expect({"memory", "none"}, "none", "name a run's folder or a log of its memory");
  expect({"memory", "empty"}, "this run has no log of its memory", "[monitor.memory_log]");
  CHECK(work.run({"memory", "gpu.csv", "--gpu-only", "--cpu-only"}).code == 2);
}

TEST_CASE("a run with all that watches memory and time answers memory, trace and top") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({},
                                                      "[monitor.memory_log]\ninterval_s = 0.2\n[monitor.trace]\n"
                                                      "steps = [1]\n[monitor.memory_snapshot]\nsteps = [2]\n"
                                                      "[strategy.fsdp]\n"));
  const auto ran = work.run({"run", file, "-n", "2", "train.max_steps=4", "train.micro_batch=2"});
  INFO(ran.all());
  REQUIRE(ran.code == 0);
  CHECK_THAT(ran.out, Contains("CPU Memory Usage\n   Peak =") && Contains("memory snapshot: ") && Contains("Traces: "));
  CHECK_THAT(ran.err, !Contains("gpuGetDeviceCount"));  // no GPU is no error of a CPU rank's trace

  const auto memory = work.run({"memory", "runs/small"});
  CHECK(memory.code == 0);
  CHECK_THAT(memory.out, StartsWith("CPU Memory Usage\n   Peak =") && Contains("   Mode ="));
  const auto of_gpus = work.run({"memory", "runs/small", "--gpu-only"});
  CHECK(of_gpus.code == 2);
  CHECK_THAT(of_gpus.err,
             Contains("runs/small: there is no log of GPU memory here") && Contains("take --gpu-only away"));

  const auto trace = work.run({"trace", "runs/small"});
  INFO(trace.all());
  CHECK(trace.code == 0);
  CHECK_THAT(trace.out, Contains("runs/small/traces/rank-0-step-1.json: ") && Contains("forward blocks.0") &&
                            Contains("optimizer") && Contains("collectives"));

  const auto top = work.run({"top", "runs/small"});
  INFO(top.all());
  CHECK(top.code == 0);
  CHECK_THAT(top.out, StartsWith("run small: 2 ranks on 1 node\nstep 4/4 (100 %)") && Contains("slowest rank ") &&
                          Contains(" ms a step for it (") && Contains(" of the last 3 steps\n"));

  const auto snapshot = capstan::read_file(work.folder() / "runs/small/memory_snapshots/rank-0-step-2.txt");
  INFO(snapshot);
  CHECK_THAT(snapshot, StartsWith("memory of rank 0 in step 2 when it was largest: at the ") &&
                           Contains("\nparameters ") && Contains("\noptimizer state ") && Contains("\nthe process ") &&
                           Contains("what would save most"));
}

TEST_CASE("top tells a killed run from one that runs") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config());
  Program program(work.folder(), {"run", file, "train.max_steps=100000"});
  REQUIRE(program.wait_for("global_step: 3 "));
  const auto running = work.run({"top", "runs/small"});
  INFO(running.all());
  CHECK_THAT(running.out, Contains("/100000 (0 %), epoch ") && Contains(" left\n"));
  program.signal(SIGKILL);
  program.wait();
  const auto killed = work.run({"top", "runs/small"});
  INFO(killed.all());
  CHECK(killed.code == 0);
  CHECK_THAT(killed.out, Contains(", killed: process ") && Contains(" is gone\n"));
}

TEST_CASE("memory that runs out in a step: what holds it, then the error in words") {
  const Workspace work;
  // One tensor of the feed-forward is larger than what the process may address, so that nothing is really used up.
  const auto file =
      work.write("a.toml", small_config({{"ff_dim", "ff_dim = 300000"}, {"train_samples", "train_samples = 60"}},
                                        "[monitor.memory_snapshot]\n"));
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  rlimit less = before;
  less.rlim_cur = rlim_t{9} << 30;
  REQUIRE(setrlimit(RLIMIT_AS, &less) == 0);
  Outcome ran;
  {
    Program program(work.folder(), {"run", file, "train.micro_batch=128", "train.global_batch=128"});
    REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
    ran = program.wait();
  }
  INFO(ran.all());
  CHECK(ran.code == 1);
  CHECK_THAT(ran.err,
             Contains("memory has run out; what holds it stands in ") &&
                 Contains("memory of rank 0, which has run out in step 0: at the beginning of forward of blocks.0") &&
                 Contains("capstan: error\nthis host has no memory left: you tried to allocate ") &&
                 !Contains("frame #"));
  CHECK_THAT(capstan::read_file(work.folder() / "runs/small/memory_snapshots/rank-0-out-of-memory.txt"),
             Contains("what would save most") && Contains("train.micro_batch=1 "));
}

TEST_CASE("trace and top say what is missing") {
  const Workspace work;
  fs::create_directories(work.folder() / "runs/a");
  const auto trace = work.run({"trace", "runs/a"});
  CHECK(trace.code == 2);
  CHECK_THAT(trace.err, Contains("this run has no trace") && Contains("add [monitor.trace] to its configuration"));
  work.write("bad.json", "{\"traceEvents\": 7}");
  const auto bad = work.run({"trace", "bad.json"});
  CHECK(bad.code == 2);
  CHECK_THAT(bad.err, Contains("bad.json: this is no Chrome trace"));
  const auto top = work.run({"top", "runs/b"});
  CHECK(top.code == 2);
  CHECK_THAT(top.err, Contains("runs/b"));
}

}  // namespace asking_test
