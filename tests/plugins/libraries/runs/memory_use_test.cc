#include "runs/memory_use.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "support/errors.h"
#include "support/folder.h"

namespace memory_use_test {

using namespace runs;
using Samples = std::vector<double>;

namespace {

std::map<int, Samples> used(const std::string& text, const std::string& file) {
  std::map<int, Samples> out;
  for (const auto& [gpu, samples] : read_gpu_memory_log(text, file)) {
    for (const auto& sample : samples) out[gpu].push_back(sample.used_mib);
  }
  return out;
}

}  // namespace

TEST_CASE("peak, mean and every mode, in the workshop's words") {
  CHECK(gpu_memory_line(0, memory_use({1, 1, 1, 16273, 5000.25})) ==
        "[gpu_memory_log - GPU 0] Peak = 16273 MiB, Avg = 4255.25 MiB, Mode = 1 MiB");
  CHECK(cpu_memory_lines(memory_use({2145.4, 2144.8, 2176.9, 2177.2, 3892})) ==
        "   Peak =    3892 MB\n   Average = 2507.26 MB\n   Mode =    2145, 2177 MB");
}

TEST_CASE("one mode with its share, which says how little it means where no size came twice") {
  CHECK(mode_text(memory_use({1, 1, 1, 16273, 5000.25})) == "1 (60 %)");
  CHECK(mode_text(memory_use(Samples{9, 8, 7, 6, 5, 4, 3, 12, 11, 10})) == "3 (10 %)");
}

TEST_CASE("both column forms of nvidia-smi, with and without units, with and without a header") {
  const std::string rest =
      "2025/12/05 10:34:24.123, 0, 77 %, 10 MiB, 143771 MiB\n"
      "2025/12/05 10:34:24.123, 1, 3 %, 20 MiB, 143771 MiB\n"
      "2025/12/05 10:34:29.123, 0, 78 %, 30 MiB, 143771 MiB\n";
  const std::map<int, Samples> expected{{0, {10, 30}}, {1, {20}}};
  CHECK(used("timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB]\n" + rest, "a.csv") ==
        expected);
  CHECK(used(rest, "a.csv") == expected);
  CHECK(used("timestamp, index, name, memory.used [MiB], memory.total [MiB]\n"
             "2025/12/05 10:34:24.123, 0, Tesla V100-SXM2-32GB, 10, 32768\n"
             "2025/12/05 10:34:29.123, 0, Tesla V100-SXM2-32GB, 30, 32768\n"
             "2025/12/05 10:34:34.1",  // the writer was killed here
             "a.csv") == std::map<int, Samples>{{0, {10, 30}}});
  CHECK(used("memory.used [MiB], index\n7 MiB, 2\n", "a.csv") == std::map<int, Samples>{{2, {7}}});
}

TEST_CASE("times are counted from the first line, across leap days, and utilisation is read where it is a number") {
  const auto gpus = read_gpu_memory_log(
      "timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB]\n"
      "2024/02/28 23:59:58.000, 1, 37 %, 12 MiB, 81920 MiB\n2024/03/01 00:00:03.000, 1, [N/A], 13 MiB, 81920 MiB\n",
      "a.csv");
  CHECK(gpus.at(1)[0].utilisation == 37);
  CHECK_FALSE(gpus.at(1)[1].utilisation);
  CHECK(gpus.at(1)[1].seconds == Approx(86405));
  const auto named = read_gpu_memory_log("2025/12/31 23:59:58.500, 0, 7 series, 12, 81920\n", "b.csv");
  CHECK_FALSE(named.at(0)[0].utilisation);
}

TEST_CASE("psrecord's own files, plain and csv") {
  const std::string head = "# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)\n";
  CHECK(is_cpu_memory_log(head));
  CHECK(read_cpu_memory_log(head + "       0.000        0.000       10.250       25.363\n"
                                   "       5.001      101.500       20.500       25.363\n",
                            "a.txt")
            .real_mb == Samples{10.25, 20.5});
  const std::string csv = "elapsed_time,nproc,cpu,mem_real,mem_virtual\n0.01,3,0.0,10.25,25.3\n";
  CHECK(is_cpu_memory_log(csv));
  CHECK(read_cpu_memory_log(csv, "a.csv").real_mb == Samples{10.25});
  CHECK_FALSE(is_cpu_memory_log("timestamp, index, name, memory.used [MiB]\n"));
}

TEST_CASE("a line that is none is named") {
  CHECK_THROWS_WITH(
      read_gpu_memory_log("timestamp, index, name, memory.used [MiB], memory.total [MiB]\nhello\n", "g.csv"),
      Contains("g.csv:2") && Contains("'hello' is no line of a memory log") && Contains("nvidia-smi"));
  CHECK_THROWS_WITH(read_gpu_memory_log("a, 0, b, [N/A], [N/A]\n", "g.csv"), Contains("g.csv:1"));
  CHECK_THROWS_WITH(read_cpu_memory_log("# x\n1 2 three\n", "c.txt"), Contains("c.txt:2") && Contains("psrecord"));
}

TEST_CASE("sizes that no memory has are refused with their line, whatever number they are") {
  for (const std::string size : {"nan", "inf", "-inf", "-5", "1e300", "9e18"}) {
    INFO(size);
    CHECK_THROWS_WITH(
        read_gpu_memory_log("timestamp, index, memory.used [MiB]\nx, 0, 1\nx, 0, " + size + " MiB\n", "g"),
        Contains("g:3"));
    CHECK_THROWS_WITH(read_cpu_memory_log("# x\n0.0 0.0 10.0 20.0\n1.0 0.0 " + size + " 20.0\n", "c"), Contains("c:3"));
    const std::string head = "elapsed_time,nproc,cpu,mem_real,mem_virtual\n";
    CHECK_THROWS_WITH(read_cpu_memory_log(capstan::cat(head, "0.01,3,0.0,", size, ",25.3\n"), "c"), Contains("c:2"));
  }
}

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

}  // namespace memory_use_test
