#include "plugins/monitors/memory_log/host_log.h"

#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <semaphore>

#include "support/folder.h"

using namespace memory_log;
using capstan::monitor::ProcessUse;
using Catch::Matchers::StartsWith;

namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;

// Samples by number: GPU 0 has 1, 16273, 16273 MiB; the processes 2145.4 MB twice, then 3892.
struct FakeHost {
  std::atomic<int> samples = 0;
  std::counting_semaphore<> taken{0};
  bool gpus = true;

  HostProbes probes() {
    HostProbes probes;
    probes.processes = [this] {
      const int n = samples++;
      taken.release();
      return ProcessUse{n < 2 ? 2249614131 : 3892 * mebibyte, 4000 * mebibyte, 0.5 * n};
    };
    probes.gpus = [this] {
      if (!gpus) return std::vector<GpuMemory>{};
      return std::vector<GpuMemory>{{0, "NVIDIA H200", samples < 2 ? 1 : 16273, 143771}};
    };
    return probes;
  }
  void wait_for(int number) {
    while (samples < number && taken.try_acquire_for(std::chrono::seconds(20))) {
    }
  }
};

}  // namespace

TEST_CASE("lines are those of nvidia-smi and of psrecord") {
  const auto time = std::chrono::system_clock::from_time_t(1700000000) + std::chrono::milliseconds(7);
  const auto line = gpu_line(time, {3, "NVIDIA H200", 16273, 143771});
  CHECK_THAT(line, StartsWith("2023/11/1"));
  CHECK(line.substr(line.find('.')) == ".007, 3, NVIDIA H200, 16273 MiB, 143771 MiB");
  CHECK(cpu_line(5.0004, 101.25, {2 * mebibyte, 3 * mebibyte, 0}) ==
        "       5.000      101.250        2.000        3.000");
}

TEST_CASE("a host's logs, from the first line to what they say together") {
  const test::Folder folder;
  FakeHost host;
  HostLog log(folder.path(), "gpu1", false, host.probes());
  log.start(0.002);
  host.wait_for(2);
  log.stop();
  const auto samples = host.samples.load();
  const auto gpu = capstan::read_file(folder.path() / "gpu_memory/gpu_memory_log_gpu1.csv");
  const auto cpu = capstan::read_file(folder.path() / "cpu_memory/cpu_memory_log_gpu1.txt");
  CHECK_THAT(gpu, StartsWith("timestamp, index, name, memory.used [MiB], memory.total [MiB]\n2"));
  CHECK_THAT(cpu, StartsWith("# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)\n       0.0"));
  CHECK(std::count(cpu.begin(), cpu.end(), '\n') == samples + 1);
  CHECK_THAT(log.gpu_text(), StartsWith("[gpu_memory_log - GPU 0] Peak = 16273 MiB, Avg = "));
  CHECK_THAT(log.cpu_text(), StartsWith("   Peak =    3892 MB\n   Average = ") && Contains("   Mode =    "));
}

TEST_CASE("where no interval is asked for it follows the steps") {
  CHECK(pause_s({0, 100}, 0, 0) == 0.1);  // nothing is known yet: ever longer pauses
  CHECK(pause_s({0, 100}, 3, 0) == 0.8);
  CHECK(pause_s({0, 100}, 1000000, 0) == 5);
  CHECK(pause_s({0.001, 100}, 50, 0) == 0.1);
  CHECK(pause_s({1.5, 100}, 50, 0) == 1.5);
  CHECK(pause_s({30, 100}, 50, 0) == 5);
  CHECK(pause_s({0.05, 40000}, 50, 0) == Approx(2));  // a long run of short steps
  CHECK(pause_s({0.1, 100}, 50, 0.05) == Approx(1));  // a host with very many processes
  const test::Folder folder;
  FakeHost host;
  HostLog log(folder.path(), "a", false, host.probes());
  log.step_ended(0.2);
  log.step_ended(0.01);
  log.step_ended(3);
  const auto begin = std::chrono::steady_clock::now();
  log.start({});
  host.wait_for(4);
  log.stop();
  CHECK(host.samples >= 4);  // three pauses of 0.1 s
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  CHECK_THAT(log.cpu_text(), Contains(capstan::cat("(", host.samples.load(), " samples of all processes of the run")));
}

TEST_CASE("a run that resumes continues its logs, one that starts again does not") {
  const test::Folder folder;
  FakeHost host;
  host.gpus = false;
  const auto file = folder.path() / "cpu_memory/cpu_memory_log_a.txt";
  const auto lines_after = [&](bool continues) {
    HostLog log(folder.path(), "a", continues, host.probes());
    log.start(60);
    log.stop();
    const auto text = capstan::read_file(file);
    return std::count(text.begin(), text.end(), '\n');
  };
  CHECK(lines_after(false) == 3);  // head, first, last
  CHECK(lines_after(true) == 5);
  CHECK(lines_after(false) == 3);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "gpu_memory"));
}
