// What evaluation and export see where a strategy shows other parameters than its own: whole runs of in-process ranks.
#include <ATen/ATen.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan/strategy.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <cmath>
#include <map>
#include <mutex>

#include "checkpoint/checkpoint.h"
#include "support/job.h"
#include "support/small_run.h"
#include "train/loop.h"
#include "train/resume.h"

namespace evaluation_weights_test {

using namespace capstan;

namespace {

namespace fs = std::filesystem;
using Tensors = std::map<std::string, at::Tensor>;

struct NoHookOptions {
  static void describe(config::OptionTable<NoHookOptions>& /*table*/) {}
};

// Evaluation sees half of every parameter.
class Shows : public strategy::Strategy {
 public:
  explicit Shows(const config::Options<NoHookOptions>& /*options*/) {}
  void claim(strategy::Claims& claims) const override { claims.exclusive(strategy::evaluation_weights_point); }
  std::unique_ptr<strategy::StepHooks> step() override { return std::make_unique<Hooks>(); }

 private:
  class Hooks : public strategy::StepHooks {
    void evaluation_weights(strategy::StepContext& step) override {
      for (auto& part : step.parts) part.master.mul_(0.5);
    }
  };
};

std::vector<plugin::Registration> types() {
  return {testing::type<strategy::Strategy, Shows, NoHookOptions>("strategy", "shows")};
}

testing::Setting with(const std::string& tables, int world, std::vector<std::string> overrides = {}) {
  overrides.emplace_back("run.deterministic=true");
  return {.world = world, .config = tables, .overrides = std::move(overrides), .steps = 6, .types = types()};
}

constexpr const char* full_shard = "[strategy.fsdp]\nmode = \"full_shard\"\n";
constexpr const char* offload = "[strategy.zero]\nstage = 1\noffload_optimizer = \"cpu\"\n";

bool equal(const Tensors& a, const Tensors& b) {
  return a.size() == b.size() && std::all_of(a.begin(), a.end(), [&](const auto& entry) {
           return b.contains(entry.first) && at::equal(entry.second, b.at(entry.first));
         });
}

}  // namespace

TEST_CASE("evaluation sees what a strategy shows it, and the run's own weights come back bit for bit") {
  for (const std::string sharding : {"", full_shard, offload}) {
    for (const char* precision : {"fp32", "bf16", "bf16_pure"}) {
      INFO(sharding << precision);
      const std::vector<std::string> overrides{cat("train.precision=", precision)};
      const auto plain = testing::train(with(sharding, 2, overrides));
      const auto mine = testing::train(with("[strategy.shows]\n" + sharding, 2, overrides));
      CHECK(testing::differences(mine, plain, 0) == "");
      for (const auto& [name, weight] : plain.weights) {
        CHECK(at::equal(plain.evaluated.at(name), weight));
        CHECK(at::equal(mine.evaluated.at(name), weight * 0.5));
      }
    }
  }
}

namespace {

job::Job prepare(const std::string& file, const std::vector<std::string>& overrides, int world, int rank) {
  static const auto host = [] {
    auto made = std::make_unique<plugin::Host>();
    for (const auto& type : types()) made->add(type);
    return made;
  }();
  setup::JobRequest request;
  request.file = file;
  request.overrides = overrides;
  request.world_size = world;
  request.rank = rank;
  return testing::job_of(request, *host);
}

// A whole run of two ranks that evaluates and saves after every second step, in a folder of its own.
fs::path run_loop(const std::string& name, const std::string& tables) {
  at::set_num_threads(1);
  const auto file = testing::small_config(tables);
  const auto dir = fs::path(file).parent_path();
  const auto data = std::string(CAPSTAN_SOURCE_DIR) + "/configs/data/mini_squad_train.json";
  const std::vector<std::string> overrides{"train.max_steps=6",      "train.global_batch=24",   "train.eval_every=2",
                                           "data.eval=" + data,      "data.eval_samples=4",     "run.name=" + name,
                                           "train.precision=fp32",   "run.dir=" + dir.string(), "run.save_weights=true",
                                           "run.deterministic=true", "checkpoint.every_steps=2"};
  fs::path folder;
  const step::Stop stop;
  comm::run_in_process(2, [&](comm::Communicator& communicator) {
    const int rank = communicator.world().rank;
    const auto job = prepare(file, overrides, 2, rank);
    train::RunFolder run(train::shared_run_folder(job.config, communicator), rank);
    auto session = step::materialise(job, communicator);
    train::Loop loop(session, run, stop);
    loop.run();
    if (rank == 0) folder = run.path();
  });
  return folder;
}

// The values of this key of metrics.jsonl, from all lines that have it.
std::vector<double> numbers(const fs::path& run, const std::string& key, const std::string& besides) {
  std::vector<double> values;
  for (const auto& line : split(trim(read_file(run / "metrics.jsonl")), '\n')) {
    const auto json = Json::parse(line);
    if (json.contains(key) && json.contains(besides)) values.push_back(json.at(key).get<double>());
  }
  return values;
}

Tensors records(const fs::path& folder) {
  checkpoint::Reader reader(folder);
  Tensors tensors;
  for (const auto& name : reader.tensors("model/")) {
    auto value = at::empty(reader.shape(name), at::kFloat);
    reader.read(name, layout::Box::whole(reader.shape(name)), value);
    tensors[name] = value;
  }
  return tensors;
}

Tensors halves(Tensors tensors) {
  for (auto& [name, tensor] : tensors) tensor = tensor * 0.5;
  return tensors;
}

}  // namespace

TEST_CASE("a run evaluates and exports what a strategy shows, saves its own parameters, and trains as without it") {
  for (const std::string sharding : {"", full_shard}) {
    INFO(sharding);
    const auto plain = run_loop("plain" + std::to_string(sharding.size()), sharding);
    const auto mine = run_loop("shows" + std::to_string(sharding.size()), "[strategy.shows]\n" + sharding);
    const auto losses = numbers(mine, "loss", "grad_norm");
    REQUIRE(losses.size() == 6);
    CHECK(losses == numbers(plain, "loss", "grad_norm"));
    CHECK(equal(records(mine / "checkpoints/step-00000006"), records(plain / "checkpoints/step-00000006")));
    CHECK(equal(records(plain / "weights"), records(plain / "checkpoints/step-00000006")));
    CHECK(equal(records(mine / "weights"), halves(records(plain / "weights"))));
    const auto evaluations = numbers(mine, "loss", "split");
    const auto others = numbers(plain, "loss", "split");
    REQUIRE(evaluations.size() == 3);
    REQUIRE(others.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) CHECK(std::abs(evaluations[i] - others[i]) > 1e-3);
  }
}

TEST_CASE("check predicts what evaluation puts aside, and nothing where no strategy asks for it") {
  for (const std::string sharding : {"", full_shard}) {
    const auto file = testing::small_config("[strategy.shows]\n" + sharding);
    const auto plain = testing::small_config(sharding);
    comm::run_in_process(2, [&](comm::Communicator& communicator) {
      const int rank = communicator.world().rank;
      const auto aside = [](const job::Job& job) {
        std::int64_t bytes = 0;
        for (const auto& part : job.prediction.footprints)
          bytes += part.part == "parameters put aside" ? part.bytes : 0;
        return bytes;
      };
      const auto job = prepare(file, {}, 2, rank);
      auto session = step::materialise(job, communicator);
      std::int64_t bytes = 0;
      for (const auto& part : session.engine->step_parts()) bytes += static_cast<std::int64_t>(part.master.nbytes());
      if (bytes == 0 || aside(job) != bytes) throw Error(cat("predicted ", aside(job), ", not ", bytes));
      if (aside(prepare(plain, {}, 2, rank)) != 0) throw Error("predicted without a strategy that asks");
    });
  }
}

TEST_CASE("two strategies may not both say what evaluation sees") {
  class AlsoShows : public Shows {
   public:
    using Shows::Shows;
  };
  auto setting = with("[strategy.shows]\n[strategy.also_shows]\n", 1);
  setting.types.push_back(testing::type<strategy::Strategy, AlsoShows, NoHookOptions>("strategy", "also_shows"));
  CHECK_THROWS_WITH(testing::train(setting), Contains("evaluation weights") && Contains("also_shows"));
}

TEST_CASE("the best checkpoint has no weights that a strategy shows only to evaluation") {
  const std::string eval = "data.eval=" CAPSTAN_SOURCE_DIR "/configs/data/mini_squad_train.json";
  const std::vector<std::string> best{eval, "checkpoint.keep_best=true", "checkpoint.final_weights=best"};
  const auto file = testing::small_config("[strategy.shows]\n");
  CHECK_THROWS_WITH(prepare(file, best, 1, 0),
                    Contains("checkpoint.final_weights is \"best\", but a strategy of this run evaluates other") &&
                        Contains("set checkpoint.final_weights = \"last\""));
  CHECK_NOTHROW(prepare(testing::small_config(), best, 1, 0));
}

}  // namespace evaluation_weights_test
