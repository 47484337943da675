// Runs that read a tokenizer.json and a token cache.
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "end_to_end/program.h"
#include "end_to_end/results.h"
#include "plugins/tokenizers/hf/byte_level.h"
#include "support/tokenizer_files.h"

namespace tokens_test {

using namespace end_to_end;
using capstan::cat;

namespace {

// Every byte, and a token of three: 257 ids, the last of which ends an answer.
void write_tokenizer(const Workspace& work) {
  auto file = byte_level_file();
  file["model"]["merges"] = capstan::Json::array();
  file["model"]["vocab"] = capstan::Json::object();
  for (int byte = 0; byte < 256; ++byte)
    file["model"]["vocab"][hf::byte_level_text(std::string(1, static_cast<char>(byte)))] = byte;
  file["added_tokens"] = capstan::Json::array({added_token(256, "<end>", {{"special", true}})});
  work.write("bpe/tokenizer.json", file.dump());
  work.write("bpe/config.json", R"({"eos_token_id": 256})");
}

std::vector<double> losses(const Workspace& work, const std::string& name, const std::string& data,
                           const std::string& said) {
  const auto file = work.write(name + ".toml", small_config({{"plugin = \"squad\"", "plugin = \"squad\"\n" + data},
                                                             {"max_length", "max_length = 120"},
                                                             {"micro_batch", "micro_batch = 3"}}));
  const auto ran = work.run({"run", file, "run.name=" + name, "train.generate_samples=3", "-n", "2"});
  INFO(ran.all());
  REQUIRE(ran.code == 0);
  if (said.empty()) CHECK(ran.err.empty());
  CHECK_THAT(ran.err, Contains(said));
  return read_metrics(work.folder() / "runs" / name).all("loss");
}

}  // namespace

TEST_CASE("a tokenizer.json of single bytes trains as the byte tokenizer does") {
  const Workspace work;
  std::filesystem::create_directory(work.folder() / "bpe");
  write_tokenizer(work);
  CHECK(losses(work, "bpe", "tokenizer = \"bpe\"", "") == losses(work, "byte", "tokenizer = \"byte\"", ""));
}

TEST_CASE("a run with a tokenizer plugin is evaluated like any other, and its model's folder has the plugin's files") {
  const Workspace work;
  const std::string alphabet = " abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789?.:";
  work.write("alphabet.txt", alphabet);
  const auto table = cat("[tokenizer]\nplugin = \"", fixture("tokenizer", "reader"), "\"\nfile = \"alphabet.txt\"\n");
  const auto file =
      work.write("a.toml", small_config({{"max_steps", "max_steps = 2"}, {"micro_batch", "micro_batch = 3"}}, table));
  const auto checked = work.run({"check", file});
  CHECK(checked.code == 0);
  CHECK_THAT(checked.out, Contains("[tokenizer]") && Contains("alphabet.txt"));
  const auto ran = work.run({"run", file, "run.name=a", "-n", "2"});
  INFO(ran.all());
  REQUIRE(ran.code == 0);
  const auto run = work.folder() / "runs/a";
  CHECK(capstan::read_file(run / "model/alphabet.txt") == alphabet);
  const auto evaluated = work.run({"eval", run, "--samples", "4", "train.max_new_tokens=2"});
  INFO(evaluated.all());
  CHECK(evaluated.code == 0);
  CHECK_THAT(work.run({"check", file, "tokenizer.file=none.txt"}).err,
             Contains("none.txt") && Contains("while plugin 'reader' was in phase open"));
}

TEST_CASE("a token cache is written once, and changes no loss") {
  const Workspace work;
  const auto without = losses(work, "without", "", "");
  const std::string cache = "cache = \"tokens\"";
  CHECK(losses(work, "first", cache, "tokenizing training samples: 70 of 70\n") == without);
  const std::filesystem::directory_iterator files(work.folder() / "tokens");
  CHECK(std::distance(begin(files), end(files)) == 2);  // training and evaluation samples
  CHECK(losses(work, "second", cache, "") == without);
  CHECK_THAT(work.run({"run", work.folder() / "second.toml", "data.max_length=119", "train.max_steps=1"}).err,
             Contains("tokenizing training samples: 70 of 70\n"));
}

TEST_CASE("a token cache with a flipped bit is named, and made again before anything is learnt from it") {
  const Workspace work;
  const std::string cache = "cache = \"tokens\"";
  const auto first = losses(work, "first", cache, "tokenizing training samples: 70 of 70\n");
  int number = 0;
  for (const auto& entry : std::filesystem::directory_iterator(work.folder() / "tokens")) {
    auto bytes = capstan::read_file(entry.path());
    const auto whole = bytes;
    bytes[bytes.size() / 3] = static_cast<char>(bytes[bytes.size() / 3] ^ 4);  // in a sample
    capstan::write_file(entry.path(), bytes);
    CHECK(losses(work, cat("after", ++number), cache,
                 entry.path().string() + ": this token cache is damaged: sample ") == first);
    CHECK(capstan::read_file(entry.path()) == whole);
  }
}

TEST_CASE("a token cache that cannot be written ends the run with its reason, on all ranks at once") {
  const Workspace work;
  work.write("tokens", "a file, where a folder is wanted");
  const auto file = work.write("a.toml", small_config({{"plugin = \"squad\"", "plugin = \"squad\"\ncache = \"tokens\""},
                                                       {"micro_batch", "micro_batch = 3"}}));
  const auto ran = work.run({"run", file, "-n", "2"});
  CHECK(ran.code == 2);
  CHECK_THAT(ran.err, Contains("cannot write the token cache: Not a directory"));
  CHECK(work.run({"check", file}).code == 0);  // check tokenizes nothing
}

TEST_CASE("data that was rewritten with its old size and time is tokenized again") {
  const Workspace work;
  const auto data = work.write("d.json", capstan::read_file(source_dir() / "configs/data/mini_squad_train.json"));
  const auto file = work.write("a.toml", small_config({{"train =", "train = \"d.json\"\ncache = \"tokens\""},
                                                       {"eval =", ""},
                                                       {"eval_samples", ""},
                                                       {"max_steps", "max_steps = 2"}}));
  const auto caches = [&](const std::string& name) {
    CHECK(work.run({"run", file, "run.name=" + name}).code == 0);
    const std::filesystem::directory_iterator all(work.folder() / "tokens");
    return std::distance(begin(all), end(all));
  };
  CHECK(caches("before") == 1);
  CHECK(caches("again") == 1);
  const auto time = std::filesystem::last_write_time(data);
  auto text = capstan::read_file(data);
  const auto who = text.find("Who");
  REQUIRE(who != std::string::npos);
  text.replace(who, 3, "How");
  work.write("d.json", text);
  std::filesystem::last_write_time(data, time);
  CHECK(caches("anew") == 2);
}

}  // namespace tokens_test
