// What a user meets when the surroundings refuse: output that goes nowhere, files that are not what they seem.
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <cstdlib>

#include "end_to_end/program.h"
#include "plugins/tokenizers/hf/byte_level.h"
#include "record/manifest.h"
#include "support/ordinary_user.h"
#include "support/tokenizer_files.h"

namespace hostile_test {

using namespace end_to_end;
using capstan::cat;
using capstan::ExitCode;

namespace {

// The exit code of `capstan ARGUMENTS REDIRECTIONS`, where the shell has done something before.
int in_shell(const Workspace& work, const std::string& arguments, const std::string& before = "true") {
  const auto program = (binary_dir() / "bin" / "capstan").string();
  const auto status = std::system(
      cat("cd ", work.folder().string(), " && ", before, " && OMP_NUM_THREADS=1 ", program, " ", arguments).c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

TEST_CASE("output that cannot be written is no success, and never lands in a file of the run") {
  const Workspace work;
  work.write("a.toml", small_config({{"max_steps", "max_steps = 2"}}));
  CHECK(in_shell(work, "check a.toml >/dev/full 2>err") == static_cast<int>(ExitCode::failure));
  CHECK_THAT(capstan::read_file(work.folder() / "err"), Contains("not all could be written to standard output"));
  CHECK(in_shell(work, "check a.toml >&- 2>err") == static_cast<int>(ExitCode::failure));
  CHECK(in_shell(work, "run a.toml <&- >&- 2>&-") == 0);
  for (const auto& line :
       capstan::split(capstan::trim(capstan::read_file(work.folder() / "runs/small/metrics.jsonl")), '\n'))
    CHECK(line.starts_with("{"));
}

TEST_CASE("no command takes a full device for its reader") {
  const Workspace work;
  work.write("a.toml", small_config({{"max_steps", "max_steps = 2"}}));
  work.write("in", "{\"text\": \"hi\"}\n");
  REQUIRE(in_shell(work, "run a.toml >/dev/null 2>&1") == 0);
  for (const char* command : {"generate runs/small --json hi", "tokenize byte", "data a.toml", "check a.toml",
                              "reference", "plugins", "report runs/small", "checkpoint ls runs/small", "import-axolotl",
                              "import-deepspeed", "top runs/small", "--help", "--version"}) {
    INFO(command);
    CHECK(in_shell(work, cat(command, " >/dev/full 2>err <in")) == static_cast<int>(ExitCode::failure));
    CHECK_THAT(capstan::read_file(work.folder() / "err"), Contains("not all could be written to standard output"));
  }
}

TEST_CASE("files of a run have the rights that the umask leaves, copied ones too") {
  const Workspace work;
  auto tokenizer = byte_level_file();
  tokenizer["model"]["merges"] = capstan::Json::array();
  tokenizer["model"]["vocab"] = capstan::Json::object();
  for (int byte = 0; byte < 256; ++byte)
    tokenizer["model"]["vocab"][hf::byte_level_text(std::string(1, static_cast<char>(byte)))] = byte;
  work.write("tokenizer.json", tokenizer.dump());
  std::filesystem::permissions(work.folder() / "tokenizer.json", std::filesystem::perms(0644));
  work.write("a.toml", small_config({{"max_steps", "max_steps = 2"},
                                     {"plugin = \"squad\"", "plugin = \"squad\"\ntokenizer = \"tokenizer.json\""}}));
  REQUIRE(in_shell(work, "run a.toml >out 2>&1", "umask 077") == 0);
  REQUIRE(in_shell(work, "export runs/small --out exported >out 2>&1", "umask 077") == 0);
  std::size_t copies = 0;
  for (const char* folder : {"runs", "exported"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(work.folder() / folder)) {
      INFO(entry.path().string());
      copies += entry.path().filename() == "tokenizer.json" ? 1 : 0;
      CHECK((entry.symlink_status().permissions() & std::filesystem::perms(0077)) == std::filesystem::perms::none);
    }
  }
  CHECK(copies == 2);
}

TEST_CASE("a run whose folder is deleted meanwhile is no success") {
  const Workspace work;
  const auto ranks = GENERATE("1", "2");
  const auto file =
      work.write("a.toml", small_config({{"max_steps", "max_steps = 200"}, {"global_batch", "global_batch = 8"}}));
  Program program(work.folder(), {"run", file, "-n", ranks});
  REQUIRE(program.wait_for("global_step: 5 "));
  std::filesystem::remove_all(work.folder() / "runs");
  const auto ended = program.wait();
  INFO(ended.all());
  CHECK(ended.code == static_cast<int>(ExitCode::failure));
  CHECK_THAT(ended.err, Contains("metrics.jsonl: it was deleted while it was written"));
}

TEST_CASE("what rank 0 cannot write at the beginning is every rank's error, and the first one") {
  const Workspace work;
  const auto file =
      work.write("a.toml", small_config({{"global_batch", "global_batch = 8"}}, "[checkpoint]\nresume = \"auto\"\n"));
  const std::string name = GENERATE("config.toml", "launch.json");
  std::filesystem::create_directories(work.folder() / "runs/small" / name / "x");
  const auto ended = work.run({"run", file, "-n", "2"});
  INFO(ended.all());
  CHECK(ended.code == static_cast<int>(ExitCode::failure));
  CHECK_THAT(ended.err, Contains(name + ": cannot ") && Contains("Is a directory (EISDIR)") &&
                            Contains("[rank 1] capstan: error") && !Contains("first error"));
}

TEST_CASE("a checkpoint of a newer Capstan is neither damaged nor replaced by an older one") {
  const Workspace work;
  const auto file =
      work.write("a.toml", small_config({}, "[checkpoint]\nevery_steps = 4\nkeep = 0\nresume = \"auto\"\n"));
  REQUIRE(work.run({"run", file}).code == 0);
  const auto newest = work.folder() / "runs/small/checkpoints/step-00000008";
  auto text = capstan::read_file(newest / "manifest.json");
  const std::string version = "\"version\": 1";
  text.replace(text.find(version), version.size(), "\"version\": 2");
  capstan::write_file(newest / "manifest.json", capstan::checkpoint::sealed(text));
  const auto metrics = capstan::read_file(work.folder() / "runs/small/metrics.jsonl");
  const auto ended = work.run({"run", file});
  INFO(ended.all());
  CHECK(ended.code != 0);
  CHECK_THAT(ended.err, Contains("a newer Capstan has written it") && Contains("nothing was changed"));
  CHECK(std::filesystem::exists(newest));
  CHECK(capstan::read_file(work.folder() / "runs/small/metrics.jsonl") == metrics);
  CHECK_THAT(work.run({"checkpoint", "ls", "runs/small"}).out, Contains("cannot be read: its format has version 2"));
}

TEST_CASE("command lines that would destroy or mean nothing are refused") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config());
  const auto before = capstan::read_file(file);
  const auto onto_itself = work.run({"check", file, "--resolved", file});
  CHECK(onto_itself.code == static_cast<int>(ExitCode::usage));
  CHECK_THAT(onto_itself.err, Contains("--resolved names the configuration itself"));
  CHECK(capstan::read_file(file) == before);
  CHECK_THAT(work.run({"check", ""}).all(), Contains("config: it is empty"));
  CHECK_THAT(work.run({"check", file, "--resolved", ""}).all(), Contains("--resolved: it is empty"));
  CHECK_THAT(work.run({"tokenize", ""}).all(), Contains("tokenizer: it is empty"));
  CHECK_THAT(work.run({"generate", "", "x"}).all(), Contains("model: it is empty"));
  const auto no_file = work.run({"import-deepspeed", ""});
  CHECK(no_file.code == static_cast<int>(ExitCode::usage));
  for (const auto& [option, command] :
       std::vector<std::pair<std::string, std::vector<std::string>>>{{"--gpus", {"sweep", file, "-n", ""}},
                                                                     {"--output", {"report", "runs", "-o", ""}},
                                                                     {"--out", {"export", "runs/small", "--out", ""}},
                                                                     {"--table", {"report", "runs", "--table", ""}}}) {
    INFO(option);
    const auto ended = work.run(command);
    CHECK(ended.code == static_cast<int>(ExitCode::usage));
    CHECK_THAT(ended.all(), Contains(option + ": it is empty"));
  }
  CHECK_THAT(work.run({"run", file, "-n", "1000000"}).err, Contains("1000000 ranks") && Contains("fix: "));
  CHECK_THAT(work.run({"export", "x", "--shard-gb", "nan"}).all(), Contains("nan is no number above 0"));
  CHECK(work.run({"check", file, "-n", "1048576"}).code == static_cast<int>(ExitCode::usage));
}

TEST_CASE("no option and no -o names a file that is not its own to write") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"max_steps", "max_steps = 2"}}, "[monitor.csv]\n"));
  REQUIRE(work.run({"run", file, "monitor.csv.file=table.csv"}).code == 0);
  const auto run = work.folder() / "runs/small";
  for (const char* own : {"summary.json", "metrics.jsonl", "table.csv", "logs/rank-0.log"}) {
    INFO(own);
    const auto before = capstan::read_file(run / own);
    const auto given = cat("runs/small/", own);
    for (const auto& command : std::vector<std::vector<std::string>>{{"report", "runs/small", "-o", given},
                                                                     {"check", file, "--resolved", given}}) {
      const auto ended = work.run(command);
      CHECK(ended.code == static_cast<int>(ExitCode::usage));
      CHECK_THAT(ended.err, Contains("it is a file of the run " + run.string()) && Contains("fix: name another file"));
    }
    CHECK(capstan::read_file(run / own) == before);
  }
  CHECK(work.run({"report", "runs/small", "-o", "runs/small/report.txt"}).code == 0);
  CHECK(in_shell(work, "report runs/small -o /dev/stdout >out") == 0);
  CHECK_THAT(capstan::read_file(work.folder() / "out"), Contains("small"));
}

TEST_CASE("a folder that this user may not enter is said in words by every command") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config());
  const auto closed = work.folder() / "closed";
  std::filesystem::create_directories(closed / "x");
  std::filesystem::permissions(work.folder(), std::filesystem::perms::all);
  std::filesystem::permissions(closed, std::filesystem::perms::none);
  const auto program = (binary_dir() / "bin/capstan").string();
  const test::OrdinaryUser user;
  if (!test::OrdinaryUser::may_run(program)) {
    WARN("an ordinary user may not run what lies here: nothing tested");
    return;
  }
  for (const auto& command : std::vector<std::vector<std::string>>{{"check", "closed/x"},
                                                                   {"check", file, "model.path=closed/x"},
                                                                   {"check", file, "data.train=closed/x"},
                                                                   {"check", file, "data.tokenizer=closed/x"},
                                                                   {"run", file, "data.cache=closed/x"},
                                                                   {"run", file, "run.dir=closed/x"},
                                                                   {"run", file, "checkpoint.resume=closed/x"},
                                                                   {"eval", "closed/x"},
                                                                   {"export", "closed/x"},
                                                                   {"generate", "closed/x", "hi"},
                                                                   {"checkpoint", "ls", "closed/x"},
                                                                   {"tokenize", "closed/x"},
                                                                   {"report", "closed/x"},
                                                                   {"memory", "closed/x"},
                                                                   {"trace", "closed/x"},
                                                                   {"import-axolotl", "closed/x"},
                                                                   {"import-deepspeed", "closed/x"}}) {
    INFO(capstan::join(command, " "));
    const auto ended = work.run(command);
    INFO(ended.all());
    CHECK((ended.code == static_cast<int>(ExitCode::usage) || ended.code == static_cast<int>(ExitCode::failure)));
    CHECK_THAT(ended.err, Contains("closed") && Contains("Permission denied (EACCES)") && Contains("fix: "));
  }
}

TEST_CASE("sizes of a pre-flight at the limits of a number are refused, all at once") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config());
  std::vector<std::string> words{"preflight", file};
  const std::vector<std::string> options{"gemm_size", "write_mib", "gate_iterations", "gate_warmup",
                                         "gate_mib",  "pair_mib",  "largest_mib"};
  for (const auto& option : options) words.push_back(cat("preflight.", option, "=9223372036854775807"));
  const auto ended = work.run(words);
  CHECK(ended.code == static_cast<int>(ExitCode::usage));
  for (const auto& option : options)
    CHECK_THAT(ended.err, Contains(cat("preflight.", option, " is ")) && Contains(", but must be "));
  CHECK_THAT(ended.err, Contains("(7 faults)"));
}

TEST_CASE("a report into a full device is no success, and the device stays one") {
  const Workspace work;
  work.write("runs/a/config.toml", "[run]\n");
  work.write("runs/a/metrics.jsonl", "{\"step\":0,\"loss\":1.5}\n");
  const auto ended = work.run({"report", "runs/a", "-o", "/dev/full"});
  INFO(ended.all());
  CHECK(ended.code == static_cast<int>(ExitCode::usage));
  CHECK_THAT(ended.err, Contains("/dev/full: cannot write it: No space is left"));
  CHECK(std::filesystem::is_character_file("/dev/full"));
}

TEST_CASE("a folder whose name is not UTF-8 is refused before anything is written") {
  const Workspace work;
  const auto folder = work.folder() / "f\xff";
  std::filesystem::create_directories(folder);
  Program program(folder, {"check", work.write("a.toml", small_config())});
  const auto checked = program.wait(std::chrono::seconds(100));
  CHECK(checked.code == static_cast<int>(ExitCode::usage));
  CHECK_THAT(checked.err, Contains("whose name is not UTF-8") && Contains("\\xff"));
}

}  // namespace hostile_test
