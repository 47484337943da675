// The library that answers prompts is opened where prompts are answered, and nowhere else.
#include <capstan/base/files.h>
#include <capstan_catch.h>

#include "end_to_end/program.h"

namespace opened_generation_test {

using namespace end_to_end;

namespace {

// A run that evaluates losses, and asks `questions` afterwards.
std::string config_of(const Workspace& work, const std::string& questions) {
  return work.write("a.toml", small_config({{"max_steps", "max_steps = 2\ngenerate_samples = " + questions}}));
}

}  // namespace

TEST_CASE("a run that asks no questions does not open the library of generation, also where it evaluates") {
  const Workspace work;
  const auto file = config_of(work, "0");
  const auto opened = opened_by(work, {"run", file, "train.eval_every=1"});
  CHECK_THAT(opened, Contains("libcapstan_engine.so") && !Contains("libcapstan_generation"));
  CHECK_THAT(capstan::read_file(work.folder() / "runs/small/metrics.jsonl"), Contains("\"split\":\"eval\""));
  CHECK_THAT(opened_by(work, {"check", file}), Contains("libcapstan_engine.so") && !Contains("libcapstan_generation"));
  // The same run's model, once it is asked something.
  CHECK_THAT(opened_by(work, {"generate", "runs/small", "Where", "--set", "train.max_new_tokens=2"}),
             Contains("libcapstan_engine.so") && Contains("libcapstan_generation.so"));
}

TEST_CASE("a run that asks questions opens the library of generation") {
  const Workspace work;
  CHECK_THAT(opened_by(work, {"run", config_of(work, "2")}),
             Contains("libcapstan_engine.so") && Contains("libcapstan_generation.so"));
  CHECK(std::filesystem::exists(work.folder() / "runs/small/predictions-eval.json"));
}

}  // namespace opened_generation_test
