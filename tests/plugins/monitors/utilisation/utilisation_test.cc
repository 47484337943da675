#include "plugins/monitors/utilisation/utilisation.h"

#include <capstan_catch.h>

#include <atomic>
#include <chrono>
#include <semaphore>

using namespace capstan::monitor;
using namespace utilisation;

namespace {

double value(const Values& values, const std::string& name) {
  for (const auto& [other, number] : values) {
    if (other == name) return number;
  }
  return -1;
}

}  // namespace

TEST_CASE("mean and deviation of numbers that come one by one") {
  Moments moments;
  CHECK(moments.deviation() == 0);
  for (const double number : {2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0}) moments.add(number);
  CHECK(moments.mean() == Approx(5));
  CHECK(moments.deviation() == Approx(2));
}

TEST_CASE("a GPU rank: the allocator after each step, the driver in a thread, means of both at the end") {
  std::atomic<int> samples = 0;
  std::counting_semaphore<> taken{0};
  double allocated = 100;
  Probes probes;
  probes.gpu = [&]() -> std::optional<GpuNow> {
    const int n = samples++;
    taken.release();
    if (n == 2) return {};  // the driver did not answer once
    return GpuNow{n % 2 == 0 ? 40.0 : 60.0, 2000};
  };
  probes.memory = [&] { return MemoryNow{allocated, allocated + 50, 700}; };
  Utilisation utilisation({.interval_s = 0.001}, probes);
  const auto before = utilisation.step_ended();
  CHECK(value(before, "mem_alloc_MB") == 100);
  CHECK(value(before, "gpu_util_%") == -1);  // no sample yet
  utilisation.start();
  while (samples < 6 && taken.try_acquire_for(std::chrono::seconds(20))) {
  }
  REQUIRE(samples >= 6);
  allocated = 300;
  const auto step = utilisation.step_ended();
  CHECK(value(step, "mem_reserved_MB") == 350);
  CHECK(value(step, "mem_peak_MB") == 700);
  CHECK(value(step, "mem_total_MB") == 2000);
  CHECK((value(step, "gpu_util_%") == 40 || value(step, "gpu_util_%") == 60));
  utilisation.stop();
  const auto summary = utilisation.summary();
  CHECK(value(summary, "avg_mem_alloc_MB") == 200);
  CHECK(value(summary, "avg_mem_reserved_MB") == 250);
  CHECK(value(summary, "peak_mem_alloc_MB") == 700);
  CHECK(value(summary, "avg_mem_total_MB") == Approx(2000));
  CHECK(value(summary, "avg_gpu_util_%") == Approx(50).margin(10));
  CHECK(value(summary, "std_gpu_util_%") == Approx(10).margin(2));
}

TEST_CASE("a CPU rank has its process' memory, and no thread") {
  Probes probes;
  probes.memory = [] { return MemoryNow{512, 0, 600}; };
  Utilisation utilisation({}, probes);
  utilisation.start();
  CHECK(utilisation.summary().empty());
  CHECK(utilisation.step_ended() == Values{{"mem_rss_MB", 512}});
  CHECK(utilisation.summary() == Values{{"avg_mem_rss_MB", 512}, {"peak_mem_rss_MB", 600}});
}

TEST_CASE("a peak is never below what a step had, and counts until the end") {
  double now = 143.42;
  double peak = 143.20;  // the system's own counters of it lag
  Probes probes;
  probes.memory = [&] { return MemoryNow{now, 0, peak}; };
  Utilisation utilisation({}, probes);
  CHECK(utilisation.step_ended() == Values{{"mem_rss_MB", 143.42}});
  CHECK(value(utilisation.summary(), "peak_mem_rss_MB") == 143.42);
  now = 100;
  peak = 150;  // the last evaluation's
  CHECK(utilisation.summary() == Values{{"avg_mem_rss_MB", 143.42}, {"peak_mem_rss_MB", 150}});
}

TEST_CASE("the means are printed under the workshop's names, and those of others are not") {
  const Summary summary{{{"train/mfu", 0.5}, {"avg_mem_alloc_MB", 5623.125}, {"avg_gpu_util_%", 97}}, {}};
  CHECK(summary_lines(summary, 4) == "{'avg_mem_alloc_MB': 5623.12, 'avg_gpu_util_%': 97.00} (means over 4 ranks)\n");
  CHECK(summary_lines(summary, 1) == "{'avg_mem_alloc_MB': 5623.12, 'avg_gpu_util_%': 97.00}\n");
  CHECK(summary_lines({}, 4).empty());
}
