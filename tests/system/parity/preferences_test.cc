// Preference training against TRL's own trainers (preferences.py): the same tiny model, adapters and pairs, and every
// step's loss and rewards.
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <string>
#include <vector>

#include "checkpoint/scratch.h"
#include "parity/python.h"

namespace preferences_test {

using namespace capstan;
namespace fs = std::filesystem;

namespace {

/// What TRL's trainers did, made once.
const fs::path& folder() {
  static const Scratch made;
  static const bool is_made = [] {
    run_python("preferences.py", {made.path()});
    return true;
  }();
  REQUIRE(is_made);
  static const fs::path path = made.path();
  return path;
}

struct Case {
  std::string loss;
  std::string options;    ///< of [objective], as preferences.py has them
  std::string data = {};  ///< more of [data]
  bool adapters = true;   ///< else all parameters are trained
};

const std::string saved = "numbers = [\"reference_log_probability\"]\n";
const std::vector<Case> cases{{"sigmoid", "beta = 0.3\n"},
                              {"ipo", "beta = 0.4\n"},
                              {"orpo", "lambda = 0.5\n"},
                              {"simpo", "beta = 2.0\ngamma = 0.7\n"},
                              {"sigmoid", "beta = 0.3\nreference = \"data\"\n", saved},
                              {"ipo", "beta = 0.4\nreference = \"data\"\n", saved},
                              {"sigmoid", "beta = 0.3\nreference = \"start\"\n", "", false},
                              {"ipo", "beta = 0.4\nreference = \"data\"\n", saved, false},
                              {"ipo", "beta = 0.4\nreference = \"start\"\n", "", false}};

std::string adapters() {
  return cat("[strategy.lora]\nrank = 4\nalpha = 8\ntargets = [\"q_proj\", \"v_proj\", \"down_proj\"]\nadapter = \"",
             (folder() / "adapter").string(), "\"\n");
}

/// The steps' lines of metrics.jsonl of a run that learns from the same pairs in the same order.
std::vector<Json> train(const Case& one) {
  const Scratch scratch;
  const auto config = scratch.write(
      "a.toml",
      cat("[run]\nname = \"ours\"\ndir = \"", scratch.path().string(), "\"\ndevice = \"cpu\"\n",
          "[model]\nplugin = \"llama\"\npath = \"", folder().string(), "\"\n",
          "[data]\nplugin = \"jsonl\"\ntokenizer = \"byte\"\npairs = true\nmax_length = 97\ntrain = \"",
          (folder() / (one.loss + ".jsonl")).string(), "\"\n", one.data,
          "[train]\nmax_steps = 10\nglobal_batch = 2\naccumulation = 1\nshuffle = false\nprecision = \"fp32\"\n",
          "[optimizer]\nlr = ", one.adapters ? "2e-2" : "2e-3",
          "\nbetas = [0.9, 0.95]\nweight_decay = 0.0\nschedule = \"constant\"\nclip = 0.0\n",
          "[objective]\nplugin = \"dpo\"\nloss = \"", one.loss, "\"\n", one.options, one.adapters ? adapters() : ""));
  // One thread, as TRL has there: for so small a model more of them only wait for each other.
  run_program("/usr/bin/env", {"OMP_NUM_THREADS=1", cat(CAPSTAN_BINARY_DIR, "/bin/capstan"), "run", config});
  std::vector<Json> lines;
  for (const auto& line : split(read_file(scratch.path() / "ours" / "metrics.jsonl"), '\n')) {
    auto json = try_parse_json(line);
    if (json.is_object() && json.contains("grad_norm")) lines.push_back(std::move(json));
  }
  return lines;
}

}  // namespace

TEST_CASE("ten steps of each preference loss have TRL's losses and rewards", "[preferences]") {
  const std::vector<std::pair<std::string, std::string>> numbers{
      {"loss", "loss"}, {"reward_chosen", "chosen"}, {"reward_rejected", "rejected"}, {"accuracy", "accuracy"}};
  for (const auto& one : cases) {
    const auto expected = Json::parse(read_file(folder() / (one.loss + (one.adapters ? ".json" : "-all.json"))));
    const auto steps = train(one);
    REQUIRE(steps.size() == 10);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      for (const auto& [ours, theirs] : numbers) {
        // Before the first update policy and reference are the same, and rounding decides.
        if (i == 0 && (!one.data.empty() || !one.adapters) && ours == "accuracy") continue;
        INFO(one.loss << ", " << one.options << "step " << i + 1 << ", " << ours);
        const auto found = steps[i].at(ours).get<double>(), wanted = expected.at(theirs).at(i).get<double>();
        CHECK(std::abs(found - wanted) <= 1e-4 * std::max(1.0, std::abs(wanted)));
      }
    }
  }
}

}  // namespace preferences_test
