#include "report/memory_log.h"

#include <capstan_catch.h>

#include "support/errors.h"
#include "support/folder.h"

using namespace capstan::report;
using Catch::Matchers::Contains;

TEST_CASE("peak, average and every mode") {
  const auto usage = usage_of({1, 5, 5, 2, 2, 3});
  CHECK(usage.peak == 5);
  CHECK(usage.average == Approx(3));
  CHECK(usage.modes == std::vector<double>{2, 5});
}

TEST_CASE("both of the workshop's column forms are read, with units and without, across midnight") {
  const test::Folder folder;
  const auto first = read_gpu_log(folder.write("gpu_a.csv",
                                               "timestamp, index, name, memory.used [MiB], memory.total [MiB]\n"
                                               "2025/12/31 23:59:58.500, 0, NVIDIA A100, 12, 81920\n"
                                               "2026/01/01 00:00:03.500, 0, NVIDIA A100, 13, 81920\n"));
  CHECK(first.name == "gpu_a");
  REQUIRE(first.gpus.at(0).size() == 2);
  CHECK(first.gpus.at(0)[1].seconds == Approx(5));
  CHECK(first.gpus.at(0)[1].used_mib == 13);
  CHECK_FALSE(first.gpus.at(0)[1].utilisation);
  const auto second = read_gpu_log(folder.write(
      "gpu_b.csv",
      "timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB]\n"
      "2024/02/28 23:59:58.000, 1, 37 %, 12 MiB, 81920 MiB\n2024/03/01 00:00:03.000, 1, [N/A], 13 MiB, 81920 MiB\n"));
  CHECK(second.gpus.at(1)[0].utilisation == 37);
  CHECK_FALSE(second.gpus.at(1)[1].utilisation);
  CHECK(second.gpus.at(1)[1].seconds == Approx(86405));  // 2024 has a 29th of February
}

TEST_CASE("a log that is none is refused with its line") {
  const test::Folder folder;
  CHECK_THAT(test::error_of([&] { read_gpu_log(folder.write("a.csv", "hello\n")); }),
             Contains("a.csv:1") && Contains("does not name the columns") && Contains("nvidia-smi --query-gpu="));
  const std::string head = "timestamp, index, memory.used [MiB]\n";
  CHECK_THAT(test::error_of([&] { read_gpu_log(folder.write("b.csv", head + "x\n2025/12/05 23:59:50.0, 0, 1\n")); }),
             Contains("b.csv:2"));
  CHECK_THAT(test::error_of([&] { read_cpu_log(folder.write("c.txt", "# head\nx\n1 2 3 4\n")); }), Contains("c.txt:2"));
}
