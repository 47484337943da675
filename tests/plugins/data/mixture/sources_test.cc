// [[data.sources]] and data.eval_fraction in a configuration: what they make, and what is wrong with them.
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan/testing.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "job/job.h"
#include "support/folder.h"
#include "testing/tiny.h"
#include "train/token_caches.h"

namespace sources_test {

using namespace capstan;
using test::Folder;

namespace {

struct Prepared {
  std::optional<job::Job> job;
  std::string faults;
  std::size_t count = 0;
};

// With [model] and [train] of its own; data.toml has the rest.
Prepared prepared(const Folder& folder, const std::string& data, const std::vector<std::string>& overrides = {},
                  int world = 1, const std::string& split = "") {
  plugin::Host host;
  host.add(testing::tiny_model());
  host.add(testing::tiny_data());
  folder.write("base.toml",
               "[model]\nplugin = \"tiny\"\n[train]\nmax_steps = 20\nglobal_batch = 4\n[run]\nhost_memory = 1000\n");
  setup::JobRequest request;
  request.file = folder.write("data.toml", "extends = \"base.toml\"\n" + data);
  request.overrides = overrides;
  request.world_size = world;
  request.split = split;
  Diagnostics faults;
  Prepared out;
  try {
    out.job = job::prepare(request, host, faults);
  } catch (const Error& error) {
    for (const auto& fault : error.diagnostics()) faults.add(fault);
  }
  for (const auto& fault : faults.list()) out.faults += fault.text() + "\n";
  out.count = faults.size();
  return out;
}

void write_lines(const Folder& folder, const std::string& name, int count, const std::string& word) {
  std::string text;
  for (int i = 0; i < count; ++i) text += cat(R"({"prompt": ")", word, " ", i, R"(", "completion": "x"})", "\n");
  folder.write(name, text);
}

struct Files {
  Folder folder;
  Files() {
    write_lines(folder, "code.jsonl", 40, "c");
    write_lines(folder, "chat.jsonl", 60, "t");
    write_lines(folder, "eval.jsonl", 5, "e");
  }
};

std::string source(const std::string& train, const std::string& more = {}) {
  return cat("[[data.sources]]\nplugin = \"jsonl\"\ntrain = \"", train, "\"\n", more);
}

// The ids of all samples.
std::set<std::string> ids(const data::DataSource& source) {
  std::set<std::string> all;
  for (std::int64_t i = 0; i < source.size(); ++i) all.insert(source.get(i).id);
  return all;
}

// One fault at this line of data.toml, with these texts.
void check_fault(const Files& files, const std::string& data, int line, const std::vector<std::string>& texts) {
  const auto out = prepared(files.folder, data);
  INFO(out.faults);
  CHECK_FALSE(out.job);
  CHECK(out.count == 1);
  CHECK_THAT(out.faults, Contains(cat("data.toml:", line)));
  for (const auto& text : texts) CHECK_THAT(out.faults, Contains(text));
}

}  // namespace

TEST_CASE("sources are named after their files, and the run's configuration has them all") {
  const Files files;
  const auto out = prepared(files.folder, source("code.jsonl", "weight = 3.0\n") +
                                              source("chat.jsonl", "name = \"talk\"\neval = \"eval.jsonl\"\n"));
  INFO(out.faults);
  REQUIRE(out.job);
  const auto& job = *out.job;
  CHECK(job.plugins.data->name == "mixture");
  CHECK(job.plugins.data_parts.form.sources == std::vector<std::string>{"code", "talk"});
  CHECK(job.samples.train->size() == 100);
  CHECK(job.samples.eval->size() == 5);
  CHECK(job.samples.eval_sets.empty());    // its loss is a figure of the plain evaluation
  CHECK(job.samples.plan.samples == 239);  // 60 are a quarter of them, up to the place of the last one
  CHECK_THAT(job.samples.notes, Contains("source 'code': 40 samples, 0.75 of those drawn"));
  std::vector<std::string> tables;
  for (const auto& table : job.tables()) tables.push_back(table.path);
  CHECK(std::count(tables.begin(), tables.end(), "data.sources.1") == 1);
  CHECK(std::count(tables.begin(), tables.end(), "data.sources.2") == 1);
  const auto figures = job.plugins.minimised->plan().figures;
  REQUIRE(figures.size() == 2);
  CHECK(figures[1].name == "loss_talk");
}

TEST_CASE("sources are named after their training files also where only evaluations are read") {
  const Files files;
  const std::string eval = "eval = \"eval.jsonl\"\n";
  const auto out = prepared(files.folder, source("code.jsonl", eval) + source("chat.jsonl", eval), {}, 1, "eval");
  INFO(out.faults);
  REQUIRE(out.job);
  CHECK(out.job->plugins.data_parts.form.sources == std::vector<std::string>{"code", "chat"});
}

TEST_CASE("an objective without losses of sources has an evaluation set for each") {
  const Files files;
  write_lines(files.folder, "more.jsonl", 3, "m");
  std::string text;
  for (int i = 0; i < 8; ++i) {
    text += R"({"prompt": "a", "chosen": "b", "rejected": "c"})"
            "\n";
  }
  files.folder.write("pairs.jsonl", text);
  const std::string pairs = "pairs = true\neval = \"pairs.jsonl\"\n";
  const auto out =
      prepared(files.folder, "[objective]\nplugin = \"dpo\"\nloss = \"simpo\"\n" + source("pairs.jsonl", pairs) +
                                 source("pairs.jsonl", "name = \"more\"\n" + pairs));
  INFO(out.faults);
  REQUIRE(out.job);
  CHECK(out.job->samples.eval->size() == 16);
  REQUIRE(out.job->samples.eval_sets.size() == 2);
  CHECK(out.job->samples.eval_sets[1].name == "more");
}

TEST_CASE("each source is cached by itself, as when it is alone, whatever its weight") {
  const Files files;
  const auto caches = [&](const std::string& data) {
    const auto out = prepared(files.folder, data);
    INFO(out.faults);
    REQUIRE(out.job);
    std::set<std::string> all;
    for (const auto& split : train::cached_splits(out.job->config, out.job->plugins, out.job->samples))
      all.insert(split.cache.file.filename().string());
    return all;
  };
  const std::string folder = "[data]\ncache = \"tokens\"\n";
  const auto mixed = caches(folder + source("code.jsonl") + source("chat.jsonl", "eval = \"eval.jsonl\"\n"));
  CHECK(mixed.size() == 3);
  CHECK(caches(folder + "stop = \"first\"\n" + source("code.jsonl", "weight = 5.0\n") +
               source("chat.jsonl", "eval = \"eval.jsonl\"\n")) == mixed);
  const auto alone = caches(folder + "plugin = \"jsonl\"\ntrain = \"code.jsonl\"\n");
  CHECK(std::includes(mixed.begin(), mixed.end(), alone.begin(), alone.end()));
  // A share for evaluation is taken from the cache of all.
  CHECK(caches(folder + "plugin = \"jsonl\"\ntrain = \"code.jsonl\"\neval_fraction = 0.2\n") == alone);
}

TEST_CASE("a share for evaluation is the same for every command and number of ranks, in a mixture too") {
  const Files files;
  const auto splits = [&](const std::string& data, int world) {
    const auto out = prepared(files.folder, data, {}, world);
    INFO(out.faults);
    REQUIRE(out.job);
    return std::pair(ids(*out.job->samples.train), ids(*out.job->samples.eval));
  };
  const std::string data = "[data]\nplugin = \"jsonl\"\ntrain = \"code.jsonl\"\neval_fraction = 0.25\n";
  const auto [train, eval] = splits(data, 1);
  CHECK(train.size() == 30);
  CHECK(eval.size() == 10);
  CHECK(splits(data, 2) == std::pair(train, eval));
  CHECK(splits(data + "[run]\nseed = 9\n", 1).second != eval);
  const auto mixed = splits("[data]\neval_fraction = 0.25\n" + source("code.jsonl") + source("chat.jsonl"), 1);
  CHECK(mixed.first.size() == 75);
  CHECK(mixed.second.size() == 25);
  for (const auto& id : eval) CHECK(mixed.second.contains("code/" + id));
  const auto out = prepared(files.folder, data);
  CHECK_THAT(out.job->samples.notes, Contains("10 of 40 training samples are for evaluation") && Contains("30 for"));
}

TEST_CASE("what is wrong with sources is one fault, with its place and what to do") {
  const Files files;
  const auto two = source("code.jsonl") + source("chat.jsonl");  // 3 lines each, from line 2 on
  check_fault(files, "[[data.sources]]\nplugin = \"jsnol\"\n" + source("chat.jsonl"), 3, {"jsnol", "jsonl"});
  check_fault(files, source("code.jsonl") + source("code.jsonl"), 6,
              {"data.sources.2 and data.sources.1", "both named 'code'", "name of its own"});
  check_fault(files, source("code.jsonl", "name = \"a b\"\n") + source("chat.jsonl"), 5, {"'a b'", "letters"});
  check_fault(files, source("code.jsonl", "weight = 0.0\n") + source("chat.jsonl"), 5, {"weight", "above 0"});
  check_fault(files, source("code.jsonl", "weight = -2.0\n") + source("chat.jsonl"), 5, {"weight", "-2"});
  check_fault(files, source("code.jsonl", "packing = true\n") + source("chat.jsonl"), 5, {"option of [data]"});
  check_fault(files, source("code.jsonl", "trian = \"b\"\n") + source("chat.jsonl"), 5,
              {"trian", "did you mean 'train'"});
  check_fault(files, "[data]\ntrain = \"code.jsonl\"\n" + two, 3,
              {"data.train stands beside [[data.sources]]", "data.toml:5", "data.sources.1"});
  check_fault(files, "[data]\nplugin = \"jsonl\"\n" + two, 3, {"'jsonl' is not made of sources", "mixture"});
  check_fault(files, "[data]\nplugin = \"mixture\"\n", 3, {"'mixture' is made of sources, and there are none"});
  check_fault(files, "[[data.sources]]\nplugin = \"mixture\"\n" + source("chat.jsonl"), 3, {"cannot be one"});
  check_fault(files, "[[data.sources]]\ntrain = \"code.jsonl\"\n" + source("chat.jsonl"), 3, {"plugin"});
  check_fault(files, source("absent.jsonl") + source("chat.jsonl"), 4, {"data.sources.1.train", "absent.jsonl"});
  check_fault(files, source("code.jsonl") + source("chat.jsonl", "max_length = 5000\n"), 8, {"5,000"});
  files.folder.write("empty.jsonl", "");
  check_fault(files, source("code.jsonl") + source("empty.jsonl"), 7, {"empty.jsonl"});
  files.folder.write("pairs.jsonl", R"({"prompt": "a", "chosen": "b", "rejected": "c"})"
                                    "\n");
  check_fault(files, source("code.jsonl") + source("pairs.jsonl", "pairs = true\n"), 6,
              {"samples of the source 'pairs' have 2 sequences", "those of 'code' have 1 sequence"});
}

TEST_CASE("what is wrong with a share for evaluation is one fault with both places") {
  const Files files;
  const std::string begin = "[data]\nplugin = \"jsonl\"\ntrain = \"code.jsonl\"\n";
  check_fault(files, begin + "eval = \"eval.jsonl\"\neval_fraction = 0.1\n", 6,
              {"data.eval_fraction = 0.1", "data.eval, ", "data.toml:5"});
  check_fault(files, begin + "eval_fraction = 0.01\n", 5, {"of 40 training samples leaves no sample for evaluation"});
  check_fault(files, begin + "eval_fraction = 1.0\n", 5, {"leaves no sample for training"});
  check_fault(files, begin + "eval_fraction = 1.5\n", 5, {"eval_fraction is 1.5", "between 0 and 1"});
  check_fault(files, begin + "eval_fraction = -0.5\n", 5, {"eval_fraction is -0.5", "between 0 and 1"});
  check_fault(files,
              "[data]\neval_fraction = 0.1\n" + source("code.jsonl") + source("chat.jsonl", "eval = \"eval.jsonl\"\n"),
              3, {"data.sources.2.eval, ", "data.toml:10"});
  const auto out =
      prepared(files.folder, "[data]\nsamples_per_rank = 5\n" + source("code.jsonl") + source("chat.jsonl"));
  CHECK_THAT(out.faults, Contains("an order of their own"));
}

TEST_CASE("the example of docs/data.md is a mixture") {
  const Files files;
  std::filesystem::copy(CAPSTAN_SOURCE_DIR "/configs/data/mini_squad_train.json", files.folder / "squad.json");
  std::filesystem::copy(CAPSTAN_SOURCE_DIR "/configs/data/mini_squad_eval.json", files.folder / "squad_eval.json");
  const auto page = read_file(CAPSTAN_SOURCE_DIR "/docs/data.md");
  const auto begin = page.find("    [data]", page.find("## Mixtures and shares"));
  const auto end = page.find("\nEach table", begin);
  REQUIRE(end != page.npos);
  const std::vector<std::string> model{"model.plugin=gpt",   "model.vocab_size=261", "model.hidden_size=8",
                                       "model.num_layers=1", "model.num_heads=1",    "model.seq_length=200"};
  const auto out = prepared(files.folder, page.substr(begin, end - begin), model);
  INFO(out.faults);
  REQUIRE(out.job);
  CHECK(out.job->plugins.data_parts.form.sources == std::vector<std::string>{"code", "reading"});
}

}  // namespace sources_test
