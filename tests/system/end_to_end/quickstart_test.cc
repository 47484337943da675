// What tools/quickstart ends with: configs/quickstart.toml as it stands, on two CPU ranks.
#include <capstan_catch.h>

#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace quickstart_test {

using namespace end_to_end;

TEST_CASE("the quickstart learns to answer questions that it has never seen", "[full]") {
  const Workspace work;
  const auto ended = work.run({"run", "-n", "2", (source_dir() / "configs/quickstart.toml").string(),
                               "run.dir=" + (work.folder() / "runs").string()});
  INFO(ended.all());
  REQUIRE(ended.code == 0);
  const auto summary = read_json(work.folder() / "runs/quickstart/summary.json");
  double exact_match = 0;
  std::vector<double> losses;
  for (const auto& one : summary.at("evaluations")) {
    REQUIRE(one.at("split") == "eval");
    if (one.contains("loss")) losses.push_back(one.at("loss").get<double>());
    if (one.contains("exact_match")) exact_match = one.at("exact_match").get<double>();
  }
  CHECK(exact_match >= 80);
  REQUIRE(losses.size() >= 3);
  CHECK(losses.back() < losses.front() / 2);
  CHECK(summary.at("answers").size() >= 3);
  CHECK_THAT(ended.all(), !Contains("predicted"));
}

}  // namespace quickstart_test
