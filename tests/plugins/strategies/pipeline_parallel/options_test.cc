// What pipeline_parallel refuses, in which words, and what it says of what it did.
#include "plugins/strategies/pipeline_parallel/pipeline_parallel.h"

#include <capstan/testing.h>
#include <capstan_catch.h>

#include "support/errors.h"
#include "support/folder.h"
#include "support/options.h"

namespace options_test {

using namespace capstan;
using pipeline_parallel::PipelineParallel;
using pipeline_parallel::PipelineParallelOptions;

namespace {

const std::string llama =
    "[model]\nplugin = \"llama\"\nvocab_size = 261\nnum_layers = 3\nseq_length = 24\nhidden_size = 16\nnum_heads = 4\n"
    "num_kv_heads = 2\nff_dim = 22\n";

std::string error_of(const std::string& table, int world = 2, const std::string& accumulation = "2") {
  return test::error_of([&] {
    testing::train({.world = world,
                    .config = llama + "[strategy.pipeline_parallel]\n" + table,
                    .overrides = {"train.accumulation=" + accumulation},
                    .steps = 1});
  });
}

std::vector<std::string> faults_of(const testing::OptionValues& values, std::int64_t accumulation = 2) {
  const PipelineParallel plugin(testing::options_of<PipelineParallelOptions>("strategy.pipeline_parallel", values));
  strategy::Facts facts;
  facts.accumulation = accumulation;
  Diagnostics diagnostics;
  plugin.check(facts, diagnostics);
  std::vector<std::string> texts;
  for (const auto& one : diagnostics.list()) texts.push_back(one.where + ": " + one.what + " | " + one.fix);
  return texts;
}

testing::OptionValues two(std::vector<std::pair<std::string, config::Value>> more) {
  more.insert(more.begin(), {"size", std::int64_t{2}});
  return more;
}

std::string schedule(const char* name) { return name; }

}  // namespace

TEST_CASE("a size is needed, and there are as many units as stages") {
  CHECK_THAT(error_of(""), Contains("strategy.pipeline_parallel.size"));
  CHECK_THAT(error_of("size = 3\n"), Contains("world 2 is no multiple of pp 3"));
  CHECK_THAT(error_of("size = 2\nschedule = \"interleaved\"\nchunks = 3\n"),
             Contains("the model has 5 units, too few for 6 stages") && Contains("use a smaller size or fewer chunks"));
}

TEST_CASE("stages of a rank that a schedule does not have are refused") {
  const auto with = [](const char* name, std::int64_t chunks) {
    const auto faults = faults_of(two({{"schedule", schedule(name)}, {"chunks", chunks}}));
    return faults.empty() ? "" : faults.front();
  };
  CHECK(
      with("1f1b", 2) ==
      "a.toml:4: strategy.pipeline_parallel.chunks is 2, but schedule = \"1f1b\" has one stage a rank | set schedule = "
      "\"interleaved\"");
  CHECK_THAT(with("interleaved", 1), Contains("has several stages a rank | set schedule = \"1f1b\""));
  CHECK_THAT(with("dualpipev", 3), Contains("has two stages a rank | leave it out"));
  for (const auto& [name, chunks] : {std::pair<const char*, std::int64_t>{"1f1b", 1},
                                     {"interleaved", 4},
                                     {"zero_bubble", 1},
                                     {"zero_bubble", 3},
                                     {"dualpipev", 2}}) {
    INFO(name << " " << chunks);
    CHECK(with(name, chunks).empty());
  }
}

TEST_CASE("a table must be for the run's ranks and micro-batches, and goes with neither schedule nor chunks") {
  const test::Folder folder;
  const auto file = folder.write("mine.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  CHECK(faults_of(two({{"table", file}})).empty());
  CHECK(faults_of({{"size", std::int64_t{3}}, {"table", file}}) ==
        std::vector<std::string>{"a.toml:3: the table " + file +
                                 " is for 2 ranks, and strategy.pipeline_parallel.size is 3 | set size = 2, or give "
                                 "another table"});
  CHECK(faults_of(two({{"table", file}}), 4) ==
        std::vector<std::string>{"a.toml:3: the table " + file +
                                 " is for 2 micro-batches, and a step of this run has 4 | set train.accumulation = 2, "
                                 "or give another table"});
  CHECK_THAT(faults_of(two({{"table", file}, {"schedule", schedule("zero_bubble")}})).front(),
             Contains("are both set"));
  CHECK_THAT(faults_of(two({{"table", file}, {"chunks", std::int64_t{1}}})).front(),
             Contains("the table says how many stages a rank has"));
  const auto bad = folder.write("bad.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1\n");
  CHECK_THAT(error_of("size = 2\ntable = \"" + bad + "\"\n"), Contains("bad.csv:2: position 1, there is no 1B1"));
  CHECK_THAT(error_of("size = 2\ntable = \"" + file + "\"\n", 2, "3"), Contains("and a step of this run has 3"));
}

TEST_CASE("a split names the units with which stages begin") {
  CHECK(error_of("size = 2\nsplit = [\"blocks.1\"]\n").empty());
  CHECK_THAT(error_of("size = 2\nsplit = [\"blocks.1\", \"blocks.2\"]\n"),
             Contains("strategy.pipeline_parallel.split names 2 units, and 2 stages have 1 after the first"));
  CHECK_THAT(error_of("size = 2\nsplit = [\"blocks.7\"]\n"),
             Contains("split names 'blocks.7', and the model's units are"));
  CHECK_THAT(error_of("size = 2\nschedule = \"interleaved\"\nsplit = [\"blocks.2\", \"blocks.1\", \"blocks.0\"]\n"),
             Contains("names 'blocks.1', which does not come after the unit that the stage before begins with"));
}

TEST_CASE("with one rank nothing is cut, and options that would are said to have no effect") {
  PipelineParallel plugin(testing::options_of<PipelineParallelOptions>(
      "strategy.pipeline_parallel", {{"size", std::int64_t{1}}, {"chunks", std::int64_t{2}}}));
  CHECK(plugin.stages({}, layout::Mesh()).first_units == std::vector<std::size_t>{0});
  CHECK(plugin.notes() ==
        std::vector<std::string>{"note: strategy.pipeline_parallel.chunks has no effect with size = 1"});
}

TEST_CASE("notes say what each stage has, and draw the schedule") {
  class Plain : public nn::Unit {
   public:
    using Unit::Unit;
    nn::Hidden forward(nn::Hidden hidden, const nn::Batch&, nn::KVCache*) override { return hidden; }
  };
  PipelineParallel plugin(testing::options_of<PipelineParallelOptions>(
      "strategy.pipeline_parallel",
      two({{"schedule", schedule("zero_bubble")}, {"split", std::vector<std::string>{"unit1"}}})));
  std::vector<std::unique_ptr<nn::Unit>> units;
  for (int i = 0; i < 3; ++i) units.push_back(std::make_unique<Plain>("unit" + std::to_string(i)));
  strategy::Facts facts;
  facts.accumulation = 2;
  Diagnostics diagnostics;
  plugin.check(facts, diagnostics);
  const auto stages = plugin.stages(units, layout::Mesh({{layout::Axis::pp, 2}}));
  CHECK(stages.first_units == std::vector<std::size_t>{0, 1});
  CHECK(stages.positions == std::vector<int>{0, 1});
  CHECK(stages.program(1, 2).size() == 4);
  // No weight of a product is trained, so that backward is in one part.
  const std::string summary =
      "schedule zero_bubble for 2 micro-batches: ranks wait for 33 % of the time if stages take as long as each other, "
      "and hold activations of at most 2 forwards";
  CHECK(plugin.notes() == std::vector<std::string>{"stage 0, position 0: unit0", "stage 1, position 1: unit1 … unit2",
                                                   summary, "position 0  F0 F1 .  .  B0 -  .  B1 -",
                                                   "position 1  .  F0 B0 -  F1 B1 -  .  ."});
}

}  // namespace options_test
