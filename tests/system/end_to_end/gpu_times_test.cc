// What a run says of its steps' times and of its memory, on a GPU: test_end_to_end '[.gpu][times]'.
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <iostream>
#include <numeric>

#include "end_to_end/gpus.h"
#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace gpu_times_test {

using namespace end_to_end;
using capstan::cat;

namespace {

// Steps of equal work, some tenths of a second each: every sample has as many tokens as the model has positions.
std::string config(int steps, int micro_batch) {
  return cat(
      "[run]\nname = \"times\"\ndevice = \"cuda\"\nsave_weights = false\n"
      "[model]\nplugin = \"gpt\"\nvocab_size = 50000\nhidden_size = 2048\nnum_layers = 12\nnum_heads = 16\n"
      "seq_length = 1024\ndropout = 0.0\nattention_dropout = 0.0\n[data]\nplugin = \"synthetic\"\nsamples = 4096\n"
      "[train]\nprecision = \"bf16\"\ncuda_graphs = \"off\"\nmax_steps = ",
      steps, "\nmicro_batch = ", micro_batch, "\n[monitor.console]\nstart_table = true\n");
}

}  // namespace

TEST_CASE("equal steps take equal times from the second on, in short runs too", "[.gpu][times]") {
  if (too_few_gpus(1)) return;
  const int steps = GENERATE(3, 8);
  const Workspace work;
  const auto file = work.write("a.toml", config(steps, 8));
  const auto ran = work.run({"run", file, "train.accumulation=8"});
  INFO(ran.all());
  REQUIRE(ran.code == 0);
  const auto folder = work.folder() / "runs" / "times";
  const auto times = read_metrics(folder).all("step_time_s");
  REQUIRE(times.size() == static_cast<std::size_t>(steps));
  for (std::size_t i = 1; i < times.size(); ++i) {
    INFO("step " << i << " of " << steps << ": " << times[i] << " s, step 1: " << times[1] << " s");
    CHECK(times[i] == Approx(times[1]).epsilon(0.2));
  }
  // Little else happens between the run's start and its end.
  const auto summary = read_json(folder / "summary.json");
  const double sum = std::accumulate(times.begin(), times.end(), 0.0);
  const auto runtime = summary.at("runtime_s").get<double>();
  std::cout << steps << " steps: " << sum << " s of " << runtime << " s, first " << times[0] << " s, then " << times[1]
            << " s\n"
            << ran.out << std::endl;
  CHECK(sum <= runtime);
  CHECK(sum > 0.5 * runtime);
  CHECK(summary.at("start_s").contains("device"));
  CHECK_THAT(ran.out, Contains("opening the device and its libraries"));
}

TEST_CASE("what is predicted not to fit is refused before it is loaded, and told by its parts where it runs out",
          "[.gpu][times]") {
  if (too_few_gpus(1)) return;
  const Workspace work;
  const auto file = work.write("a.toml", config(2, 512));  // some hundred GiB of activations
  const auto refused = work.run({"run", file});
  INFO(refused.all());
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Contains("this run does not fit into its GPUs, by prediction") &&
                              Contains("activations and gradients at work") && Contains("What would make it smaller") &&
                              Contains("run.memory_check=warn"));
  CHECK_FALSE(std::filesystem::exists(work.folder() / "runs" / "times"));
  const auto failed = work.run({"run", file, "run.memory_check=warn"});
  INFO(failed.all());
  CHECK(failed.code == 1);
  CHECK_THAT(failed.err, Contains("this run may not fit into its GPUs, by prediction") &&
                             Contains("this rank's GPU has no memory left") && Contains("all tensors at once"));
}

}  // namespace gpu_times_test
