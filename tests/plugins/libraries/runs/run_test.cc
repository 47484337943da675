#include "runs/run.h"

#include <capstan_catch.h>

#include <tuple>

#include "support/errors.h"
#include "support/run_folders.h"

namespace run_test {

using namespace runs;
using namespace test;

TEST_CASE("a run's folder is read whole") {
  const test::Folder folder;
  const auto path = make_run(folder, "a",
                             {2, 1, 20, "[model]\nnum_layers = 6\n[strategy.zero]\nstage = 2\n",
                              R"("monitors":{"utilisation":{"avg_gpu_util_%":87.5}},)"});
  add_gpu_logs(folder, "a");
  folder.write("a/cpu_memory/cpu_node7.txt",
               "# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)\n 0.0 0.0 10.5 20.0\n 5.0 99.0 12.5 20.0\n");
  const auto run = read_run(path);
  CHECK(run.name == "a");
  CHECK(run.ranks == 2);
  REQUIRE(run.steps.size() == 4);
  CHECK(run.steps[3].loss == 1.5);
  REQUIRE(run.evaluations.size() == 2);
  CHECK(run.evaluations[1].epoch == 1.93);
  CHECK(run.number("samples") == 40);
  CHECK(run.number("avg_gpu_util_%") == 87.5);
  CHECK_FALSE(run.number("util"));
  CHECK(run.option("model.num_layers") == 6);
  CHECK(run.option_text("strategy.zero.stage") == "2");
  REQUIRE(run.gpu0());
  CHECK(run.gpu0()->size() == 5);
  CHECK(run.gpu0()->at(4).seconds == Approx(8));
  REQUIRE(run.cpu());
  CHECK(run.cpu()->real_mb == std::vector<double>{10.5, 12.5});
}

TEST_CASE("a run that is still writing is read up to its last whole line") {
  const test::Folder folder;
  const auto path = make_run(folder, "a");
  std::filesystem::remove(folder / "a/summary.json");
  folder.write("a/metrics.jsonl",
               "{\"step\":0,\"loss\":null,\"lr\":0.1,\"samples\":1,\"step_time_s\":1.0}\n{\"step\":1,\"lo");
  const auto run = read_run(path);
  CHECK_FALSE(run.has_summary);
  REQUIRE(run.steps.size() == 1);
  CHECK_FALSE(run.steps[0].loss);
}

TEST_CASE("what is no run, or broken, is refused with its place") {
  const test::Folder folder;
  folder.write("empty/x", "");
  CHECK_THAT(test::error_of([&] { read_run(folder / "none"); }), Contains("there is no such folder"));
  CHECK_THAT(test::error_of([&] { read_run(folder / "empty"); }), Contains("holds no config.toml"));
  const auto path = make_run(folder, "a");
  folder.write("a/metrics.jsonl", "{\"step\":0,\"loss\":1}\nhello\n{\"step\":1,\"loss\":1}\n");
  CHECK_THAT(test::error_of([&] { read_run(path); }), Contains("metrics.jsonl:2") && Contains("not a JSON object"));
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  for (const auto* file : {"summary.json", "launch.json"}) {
    const auto other = make_run(folder, "c");
    folder.write(std::string("c/") + file, "{\"ranks\":" + deep + "}");
    CHECK_THAT(test::error_of([&] { read_run(other); }), Contains(file) && Contains("not a JSON object"));
  }
  for (const auto& [file, text] :
       {std::pair{"summary.json", "{\"peak_memory_bytes\":\"x\"}"},
        std::pair{"summary.json", "{\"world_size\":\"two\"}"}, std::pair{"launch.json", "{\"ranks\":[3]}"},
        std::pair{"metrics.jsonl", "{\"step\":0,\"loss\":1,\"samples\":[]}\n"}}) {
    INFO(file << text);
    const auto other = make_run(folder, "b");
    folder.write(std::string("b/") + file, text);
    CHECK_THAT(test::error_of([&] { read_run(other); }), Contains(file) && Contains("of another type"));
  }
}

TEST_CASE("numbers that no run writes are refused with their place") {
  const test::Folder folder;
  for (const auto& [file, text, said] :
       {std::tuple{"metrics.jsonl", R"({"step":0,"loss":1,"step_time_s":-2.5})",
                   "metrics.jsonl:1: 'step_time_s' is -2.5"},
        std::tuple{"metrics.jsonl", R"({"step":0,"loss":1,"step_time_s":1e300})",
                   "metrics.jsonl:1: 'step_time_s' is 1e+300"},
        std::tuple{"metrics.jsonl", R"({"step":-7,"loss":1})", "metrics.jsonl:1: 'step' is -7"},
        std::tuple{"metrics.jsonl", R"({"step":18446744073709551615,"loss":1})", "metrics.jsonl:1: 'step' is 18446744"},
        std::tuple{"metrics.jsonl", R"({"step":1,"steps":0,"loss":1})", "metrics.jsonl:1: 'steps' is 0"},
        std::tuple{"metrics.jsonl", R"({"step":0,"loss":1,"samples":-1})", "metrics.jsonl:1: 'samples' is -1"},
        std::tuple{"metrics.jsonl", R"({"step":0,"split":"eval","runtime_s":-1})",
                   "metrics.jsonl:1: 'runtime_s' is -1"},
        std::tuple{"summary.json", R"({"world_size":0})", "summary.json: 'world_size' is 0"},
        std::tuple{"summary.json", R"({"world_size":1e300})", "summary.json: 'world_size' is 1e+300"},
        std::tuple{"launch.json", R"({"world_size":2,"nodes":-1})", "launch.json: 'nodes' is -1"}}) {
    INFO(text);
    const auto path = make_run(folder, "a");
    folder.write(std::string("a/") + file, std::string(text) + "\n");
    CHECK_THAT(test::error_of([&] { read_run(path); }), Contains(said) && Contains("which no run writes there"));
  }
}

TEST_CASE("runs of one name are told apart") {
  const test::Folder folder;
  make_run(folder, "a");
  make_run(folder, "b");
  std::filesystem::create_directory(folder / "other");
  std::filesystem::copy(folder / "a", folder / "other/a", std::filesystem::copy_options::recursive);
  const auto runs = read_runs({(folder / "a").string(), (folder / "b").string(), (folder / "other/a").string()});
  CHECK_THAT(runs[0].name, Contains("a (") && Contains("/a)"));
  CHECK(runs[1].name == "b");
  CHECK_THAT(runs[2].name, Contains("/other/a)"));
}

}  // namespace run_test
