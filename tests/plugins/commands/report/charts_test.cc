#include <capstan_catch.h>

#include "plugins/commands/report/page.h"
#include "support/run_folders.h"

namespace charts_test {

using namespace report;
using namespace runs;
using namespace test;

namespace {

Chart chart_of(const std::vector<Chart>& charts, const std::string& title) {
  for (const auto& chart : charts) {
    if (chart.title == title) return chart;
  }
  FAIL("there is no chart " << title);
  return {};
}

bool has_chart(const std::vector<Chart>& charts, const std::string& title) {
  for (const auto& chart : charts) {
    if (chart.title == title) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a chart has a line, a key and a marker for each run; the same style for a run everywhere") {
  const test::Folder folder;
  const auto a = make_run(folder, "a", {1, 1, 100});
  const auto b = make_run(folder, "b<2>", {2, 1, 50});
  const auto runs = read_runs({a, b});
  const auto charts = charts_of(runs, runs[0]);
  for (const auto* title :
       {"Training loss", "Evaluation loss", "Learning rate", "Gradient norm", "Throughput", "Scaling"})
    CHECK(has_chart(charts, title));
  CHECK_FALSE(has_chart(charts, "GPU 0 memory over time"));
  add_gpu_logs(folder, "a");
  CHECK(has_chart(charts_of(read_runs({a, b}), runs[0]), "GPU 0 memory over time"));
  CHECK_FALSE(has_chart(charts_of(read_runs({a}), runs[0]), "Scaling"));
  const auto svg = svg_of(charts.front());
  CHECK_THAT(svg, Contains("class=\"s0\"") && Contains("class=\"s1\"") && Contains("<title>b&lt;2&gt;</title>") &&
                      Contains("<circle") && Contains("<rect"));
  CHECK(svg.find("nan") == std::string::npos);
}

TEST_CASE("a run on CPUs has its processes' memory over time; rates of steps are not called as those of runs") {
  const test::Folder folder;
  const auto path = make_run(folder, "a", {1, 1, 100, "[run]\ndevice = \"cpu\"\n", "", true});
  folder.write("a/cpu_memory/cpu_node7.txt",
               "# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)\n"
               "       0.000        0.000       10.4       20\n"
               "       5.250        0.000       12.0       20\n  10.5   0.0");
  const auto runs = read_runs({path, make_run(folder, "b", {2, 1, 50})});
  const auto charts = charts_of(runs, runs[1]);
  bool found = false;
  for (const auto& chart : charts) {
    CHECK(chart.y != "samples/s");  // a table's Samples/s is of the whole run
    if (chart.title == "Scaling") {
      CHECK(chart.series[1].name == "as fast a GPU as b");
      CHECK(chart.series[1].points == std::vector<std::pair<double, double>>{{1, 5}, {2, 10}});
    }
    if (!chart.title.starts_with("Host memory over time")) continue;
    found = true;
    CHECK(chart.series.front().points == std::vector<std::pair<double, double>>{{0, 10.4}, {5.25, 12}});
  }
  CHECK(found);
}

TEST_CASE("throughput is a moving mean over each step's rate where there are enough steps") {
  const test::Folder folder;
  const auto path = make_run(folder, "a");
  const auto few = read_runs({path});
  CHECK(chart_of(charts_of(few, few[0]), "Throughput").series[0].raw.empty());
  std::string lines;
  for (int step = 0; step < 60; ++step) {
    lines +=
        capstan::cat("{\"step\":", step, ",\"loss\":1,\"samples\":10,\"step_time_s\":", step % 2 == 0 ? 1 : 2, "}\n");
  }
  folder.write("a/metrics.jsonl", lines);
  const auto many = read_runs({path});
  const auto chart = chart_of(charts_of(many, many[0]), "Throughput");
  CHECK(chart.series[0].raw[30] == Point{30, 10});
  CHECK(chart.series[0].points[30].second == Approx(20.0 / 3));
  CHECK_THAT(chart.note, Contains("pale: each step"));
}

TEST_CASE("each source of a mixture has its loss and its share over the steps that have it") {
  const test::Folder folder;
  const auto path = make_run(folder, "a");
  folder.write(
      "a/metrics.jsonl",
      "{\"step\":0,\"loss\":2,\"loss_code\":3,\"share_code\":0.25}\n{\"step\":1,\"loss\":2,\"share_code\":0}\n");
  const auto runs = read_runs({path});
  const auto charts = charts_of(runs, runs[0]);
  CHECK(chart_of(charts, "Training loss of code").series[0].points[0] == Point{0, 3});
  CHECK(chart_of(charts, "Share of code").series[0].points[0] == Point{0, 0.25});
  CHECK_FALSE(has_chart(charts, "Training loss of loss"));
}

}  // namespace charts_test
