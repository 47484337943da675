#include "plugins/commands/report/page.h"

#include <capstan_catch.h>

#include <cmath>

#include "support/run_folders.h"

using namespace report;
using namespace runs;
using namespace test;

namespace {

bool has_chart(const std::vector<Chart>& charts, const std::string& title) {
  for (const auto& chart : charts) {
    if (chart.title == title) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("ticks are round and lie in the range") {
  CHECK(ticks(0, 10, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  const auto small = ticks(1e-5, 5e-5, 5);
  REQUIRE(small.size() >= 4);
  CHECK(small.front() >= 1e-5 * 0.999);
  CHECK(small.back() <= 5e-5 * 1.001);
}

TEST_CASE("thinning keeps means, and no point that is not finite") {
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i < 1000; ++i) points.emplace_back(i, i % 2 == 0 ? 1.0 : 3.0);
  points.emplace_back(1000, std::nan(""));
  const auto kept = thinned(points, 100);
  REQUIRE(kept.size() == 100);
  for (const auto& [x, y] : kept) CHECK(y == Approx(2));
}

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

TEST_CASE("an axis of counts has whole numbers, and neighbouring ticks differ") {
  const auto svg = svg_of({"", "step", "loss", {{"a", {{1, 5.5471}, {2, 5.5473}}}}});
  CHECK_THAT(svg, Contains(">1</text>") && Contains(">2</text>") && !Contains(">1.5</text>"));
  CHECK_THAT(svg, Contains(">5.5471</text>") && Contains(">5.5472</text>"));
}

TEST_CASE("a page needs nothing but itself") {
  const test::Folder folder;
  const auto runs = read_runs({make_run(folder, "a")});
  const auto page = page_of("Runs", {}, runs, runs[0]);
  CHECK_THAT(page, Contains("<!doctype html>") && Contains("prefers-color-scheme: dark") && Contains("Training loss"));
  for (const auto* outside : {"http://", "https://", "<script", "src=", "@import", "url("}) {
    INFO(outside);
    CHECK(page.find(outside) == std::string::npos);
  }
}
