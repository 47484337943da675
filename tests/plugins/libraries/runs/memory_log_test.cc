
#include <capstan_catch.h>

#include "runs/memory_use.h"
#include "support/errors.h"
#include "support/folder.h"

using namespace runs;

TEST_CASE("logs are named after their files, and errors name file and line") {
  const test::Folder folder;
  const std::string head = "timestamp, index, name, memory.used [MiB], memory.total [MiB]\n";
  const auto gpu =
      read_gpu_log(folder.write("gpu_a.csv", head + "2025/12/31 23:59:58.500, 0, NVIDIA A100, 12, 81920\n"
                                                    "2026/01/01 00:00:03.500, 0, NVIDIA A100, 13, 81920\n"));
  CHECK(gpu.name == "gpu_a");
  REQUIRE(gpu.gpus.at(0).size() == 2);
  CHECK(gpu.gpus.at(0)[1].seconds == Approx(5));
  const auto cpu = read_cpu_log(folder.write("cpu_a.txt",
                                             "# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)\n"
                                             "       0.000        0.000       10.250       25.363\n"));
  CHECK(cpu.name == "cpu_a");
  CHECK(cpu.real_mb == std::vector<double>{10.25});
  CHECK_THAT(test::error_of([&] { read_gpu_log(folder.write("b.csv", head + "hello\n")); }), Contains("b.csv:2"));
  CHECK_THAT(test::error_of([&] { read_cpu_log(folder.write("c.txt", "# head\nx\n1 2 3 4\n")); }), Contains("c.txt:2"));
}
