#include <capstan/base/exit_code.h>
#include <capstan/command/arguments.h>
#include <capstan/plugin/host.h>
#include <capstan_catch.h>

#include <array>
#include <cstdint>

namespace arguments_test {

using namespace capstan;

namespace {

constexpr int usage = static_cast<int>(ExitCode::usage);

struct Read {
  std::optional<int> code;
  std::string config;
  std::vector<std::string> overrides;
  int ranks = 0;
  std::vector<std::string> texts{"unset"};
};

Read read(const std::vector<std::string>& typed) {
  command::Arguments arguments;
  Read made;
  plugin::Host host;
  arguments.texts("--text", made.texts, "");
  arguments.configuration(made.config, made.overrides);
  arguments.ranks(made.ranks);
  made.code = arguments.read({"mine", "what it does", typed, {}, host});
  return made;
}

// One of each kind of argument, as a command would have them.
struct Many {
  std::string run;
  bool quick = false;
  std::int64_t samples = 0;
  std::uint64_t seed = 1;
  double share = 0;
  std::string format;
  std::vector<std::string> tables;
  std::set<int> lost;
};

std::optional<command::Unread> parse(Many& given, const std::vector<std::string>& typed) {
  command::Arguments arguments("capstan many", "what it does");
  arguments.value("run", given.run, "a folder").required();
  const auto quick = arguments.flag("--quick", given.quick, "without a check");
  arguments.value("--samples", given.samples, "how many").range(-1, std::int64_t{1} << 40);
  const auto share = arguments.value("--share", given.share, "how much").real_range(0, 0.5);
  arguments.value("--seed", given.seed, "of the share").only_with(share);
  arguments.value("--format", given.format, "how").one_of({"text", "csv"}).not_with(quick);
  arguments.values("--table", given.tables, "which").one_each("NAME").commas();
  arguments.values("--lost", given.lost, "ranks").one_each().group("Simulation");
  return arguments.parse(typed);
}

std::string fault(const std::vector<std::string>& typed) {
  Many given;
  const auto unread = parse(given, typed);
  return unread && unread->is_fault ? unread->text : std::string();
}

}  // namespace

TEST_CASE("arguments are read in the order in which they were typed, and overrides follow the file") {
  const auto made = read({"a.toml", "train.max_steps=2", "-n", "3", "train.accumulation="});
  CHECK_FALSE(made.code);
  CHECK(made.config == "a.toml");
  CHECK(made.ranks == 3);
  CHECK(made.overrides == std::vector<std::string>{"train.max_steps=2", "train.accumulation="});
}

TEST_CASE("the help is an answer, and what is wrong is a wrong call") {
  CHECK(read({"--help"}).code == 0);
  CHECK(read({}).code == usage);
  CHECK(read({"a.toml", "--ranked"}).code == usage);
  for (const char* ranks : {"0", "-1", "x", "1000001"}) CHECK(read({"a.toml", "-n", ranks}).code == usage);
}

TEST_CASE("an empty argument is a script's unset variable and refused, but where an empty text means something") {
  CHECK(read({""}).code == usage);
  CHECK(read({"a.toml", ""}).code == usage);
  const auto made = read({"a.toml", "--text", ""});
  CHECK_FALSE(made.code);
  CHECK(made.texts == std::vector<std::string>{""});
}

TEST_CASE("each kind of argument is read into its variable, and a positional one may follow a repeated option") {
  Many given;
  CHECK_FALSE(parse(given, {"--table", "a,b", "--table", "c", "folder", "--lost", "3", "--lost", "1", "--samples", "-1",
                            "--share", "0.25", "--seed", "18446744073709551615", "--format", "csv"}));
  CHECK(given.run == "folder");
  CHECK(given.tables == std::vector<std::string>{"a", "b", "c"});
  CHECK(given.lost == std::set<int>{1, 3});
  CHECK(given.samples == -1);
  CHECK(given.share == 0.25);
  CHECK(given.seed == std::uint64_t{18446744073709551615U});
  CHECK(given.format == "csv");
  CHECK_FALSE(given.quick);
}

TEST_CASE("what limits an argument says so") {
  CHECK_THAT(fault({"--quick"}), Contains("run is required"));
  CHECK_THAT(fault({"a", "--samples", "-2"}), Contains("--samples: Value -2 not in range -1 to 1099511627776"));
  CHECK_THAT(fault({"a", "--share", "0.6"}), Contains("--share: Value 0.6 not in range 0.000000 to 0.500000"));
  CHECK_THAT(fault({"a", "--seed", "2"}), Contains("--seed requires --share"));
  CHECK_THAT(fault({"a", "--format", "html"}), Contains("--format: html not in {text,csv}"));
  CHECK_THAT(fault({"a", "--quick", "--format", "csv"}), Contains("excludes"));
  CHECK_THAT(fault({"a", "--lost", "x"}), Contains("--lost"));
}

TEST_CASE("the help has each argument with its kind and its limits") {
  Many given;
  const auto help = parse(given, {"--help"});
  REQUIRE(help);
  CHECK_FALSE(help->is_fault);
  for (const char* line :
       {"Usage: capstan many [OPTIONS] run", "run TEXT REQUIRED", "--quick",
        "--samples INT:INT in [-1 - 1099511627776]", "--share FLOAT:FLOAT in [0 - 0.5]", "--seed UINT Needs: --share",
        "--format TEXT:{text,csv} Excludes: --quick", "--table NAME", "Simulation:", "--lost INT ..."})
    CHECK_THAT(help->text, Contains(line));
}

TEST_CASE("one action must be named, and has arguments of its own") {
  command::Arguments arguments("capstan mine");
  std::string path;
  arguments.action("list", "all").value("path", path, "where").required();
  arguments.action("show", "one");
  CHECK(arguments.actions() == std::vector<std::string>{"list", "show"});
  CHECK(arguments.parse({}));
  CHECK(arguments.chosen().empty());
  CHECK(arguments.parse({"list"}));
  CHECK_FALSE(arguments.parse({"list", "here"}));
  CHECK(arguments.chosen() == "list");
  CHECK(path == "here");
}

}  // namespace arguments_test
