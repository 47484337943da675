// A teacher's likeliest words that the data have teach what the teacher itself does, on every way to share the student.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <capstan/base/json.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <map>
#include <string>
#include <vector>

#include "data/collate.h"
#include "step/feed.h"
#include "step/passes.h"
#include "step/session.h"
#include "step/to_device.h"
#include "support/compositions.h"
#include "support/model_folders.h"

namespace teacher_data_test {

using namespace capstan;
using namespace capstan::testing;
using capstan::testing::train;  // capstan::train is a namespace, too

namespace {

constexpr std::int64_t steps = 3;
constexpr int words = 6, lines = 40;
// Files have log-probabilities in float32.
constexpr double tolerance_of_floats = 1e-6;
constexpr double tolerance = 1e-10;

const test::Folder& folder() {
  static const test::Folder made;
  return made;
}

std::string teacher() {
  const auto path = folder().path() / "teacher";
  if (!std::filesystem::exists(path)) {
    write_model(
        "[model]\nplugin = \"llama\"\nvocab_size = 261\nnum_layers = 3\nseq_length = 24\ninit_std = 0.3\n"
        "hidden_size = 24\nnum_heads = 4\nnum_kv_heads = 2\nff_dim = 30\n",
        11, path);
  }
  return path.string();
}

std::string distill(const std::string& of, const std::string& outside) {
  return cat("[objective]\nplugin = \"distill\"\nteacher = \"", of, "\"\ntop_k = ", words,
             "\ntemperature = 0.8\nalpha = 0.6\noutside = \"", outside, "\"\n");
}

std::string samples_of(const std::string& file, const std::string& more = "") {
  return cat("[data]\nplugin = \"jsonl\"\ntrain = \"", file, "\"\ntokenizer = \"byte\"\nmax_length = 24\n", more);
}

// Prompts and answers of several lengths.
std::vector<Json> questions() {
  std::vector<Json> all;
  for (int i = 0; i < lines; ++i) {
    const auto size = static_cast<std::size_t>(i);
    all.push_back({{"prompt", std::string(1 + size % 5, static_cast<char>('a' + i % 26))},
                   {"completion", cat(i * 37, std::string(size % 7, 'z'))}});
  }
  return all;
}

std::string written(const std::vector<Json>& all, const std::string& name) {
  std::string text;
  for (const auto& one : all) text += one.dump() + "\n";
  return folder().write(name, text);
}

std::string plain_file() {
  static const auto file = written(questions(), "plain.jsonl");
  return file;
}

// What the teacher says of each of the sample's tokens that bear loss.
void add_words(Json& line, const at::Tensor& said, const data::Sample& sample) {
  auto ids = Json::array(), logs = Json::array();
  for (std::size_t t = 1; t < sample.tokens.size(); ++t) {
    if (!sample.is_target[t]) continue;
    auto its_ids = Json::array(), its_logs = Json::array();
    for (std::int64_t n = 0; n < words; ++n) {
      const auto row = static_cast<std::int64_t>(t) - 1;
      its_ids.push_back(static_cast<std::int64_t>(said[0][row][n].item<double>()));
      its_logs.push_back(said[1][row][n].item<float>());
    }
    ids.push_back(its_ids);
    logs.push_back(its_logs);
  }
  line["teacher_words"] = ids;
  line["teacher_log_probabilities"] = logs;
}

std::string file_with_words() {
  static std::string file;
  if (!file.empty()) return file;
  auto all = questions();
  setup::JobRequest request;
  request.file = folder().write(
      "a.toml", cat("[run]\nseed = 3\ndevice = \"cpu\"\n", family_config(dense()), samples_of(plain_file()),
                    distill(teacher(), "tail"), "[train]\nmax_steps = 1\nglobal_batch = 24\nprecision = \"fp64\"\n"));
  const auto job = job_of(request);
  at::set_num_threads(1);
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    const auto session = step::materialise(job, communicator);
    const step::Passes passes(job.plugins.minimised, {}, session.frozen_runners());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto sample = job.samples.train->get(static_cast<std::int64_t>(i));
      auto batch = step::to_device(data::collate({{&sample, static_cast<std::int64_t>(i)}}, {}), session.device);
      batch.loss_rows = at::Tensor();
      add_words(all[i], passes.run_others({batch})[1], sample);
    }
  });
  return file = written(all, "words.jsonl");
}

TrainResult learnt(const std::string& tables, const Composition& layout = compositions().front(),
                   const std::vector<std::string>& overrides = {same_micro_steps}) {
  return train({.world = layout.world,
                .config = family_config(dense()) + tables + layout.strategies,
                .overrides = overrides,
                .steps = steps});
}

std::string of_data(const std::string& outside = "tail", const std::string& more = "") {
  return samples_of(file_with_words(), cat("teacher_words = ", words, "\n", more)) + distill("data", outside);
}

}  // namespace

TEST_CASE("float64: a teacher's words from the data teach what the teacher teaches that is computed", "[train]") {
  for (const std::string outside : {"tail", "renormalised"}) {
    INFO(outside);
    const auto computed = learnt(samples_of(plain_file()) + distill(teacher(), outside));
    const auto given = learnt(of_data(outside));
    CHECK(given.losses.size() == steps);
    CHECK(differences(given, computed, tolerance_of_floats) == "");
  }
  // Neither the labels alone nor fewer words are the same.
  CHECK(differences(learnt(samples_of(plain_file())), learnt(of_data()), 1e-3) != "");
  const auto fewer =
      samples_of(file_with_words(), "teacher_words = 6\n") +
      "[objective]\nplugin = \"distill\"\nteacher = \"data\"\ntop_k = 3\ntemperature = 0.8\nalpha = 0.6\n";
  CHECK(differences(learnt(fewer), learnt(of_data()), 1e-3) != "");
}

TEST_CASE("float64: a teacher's words from the data, on every layout, in stages too", "[matrix][train]") {
  const auto one = learnt(of_data());
  auto layouts = compositions();
  layouts.push_back({"PP 2 x fsdp", 4, "[strategy.pipeline_parallel]\nsize = 2\n[strategy.fsdp]\n"});
  layouts.push_back(
      {"PP 2 x CP 2", 4, "[strategy.pipeline_parallel]\nsize = 2\n[strategy.context_parallel]\nsize = 2\n"});
  bool packs = true;
  for (const auto& layout : layouts) {
    if (layout.needs_experts) continue;
    INFO(layout.name << (packs ? ", packed" : ""));
    CHECK(differences(learnt(of_data("tail", packs ? "packing = true\n" : ""), layout), one, tolerance) == "");
    packs = !packs;
  }
}

TEST_CASE("data that have fewer of a teacher's words than the objective compares are refused") {
  const auto few = samples_of(plain_file(), "") + distill("data", "tail");
  CHECK_THROWS_WITH(learnt(few), Contains("needs the field 'teacher_word_6' (int64, one a token)"));
}

TEST_CASE("a model that an objective compares with is refused where the trained one is cut into stages") {
  const Composition stages{"PP 2", 2, "[strategy.pipeline_parallel]\nsize = 2\n"};
  const std::string pairs = "[data]\nsequences = 2\n[objective]\nplugin = \"dpo\"\nreference = \"";
  for (const auto& [tables, name] : std::vector<std::pair<std::string, std::string>>{
           {distill(teacher(), "tail"), "'teacher'"},
           {cat("[objective]\nplugin = \"distill\"\nteacher = \"start\"\n"), "'teacher'"},
           {pairs + "start\"\n", "'reference'"},
           {cat(pairs, teacher(), "\"\n"), "'reference'"}}) {
    INFO(tables);
    CHECK_THROWS_WITH(learnt(tables, stages), Contains("compares with another model (" + name + ")") &&
                                                  Contains("a mesh with pp 2 cuts only the trained model into stages"));
  }
}

}  // namespace teacher_data_test
