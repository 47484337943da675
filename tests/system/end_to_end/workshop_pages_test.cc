// docs/workshop: what its pages predict, and that what they say to type works as it stands.
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <cstdlib>
#include <filesystem>
#include <regex>

#include "end_to_end/program.h"

namespace workshop_pages_test {

using namespace end_to_end;
using capstan::cat;
namespace fs = std::filesystem;

namespace {

std::string page(const std::string& name) { return capstan::read_file(source_dir() / "docs" / name); }

// The rows of predicted.md: experiment, GPUs, nodes, memory of a GPU, in training, of the host, whether it fits.
std::vector<std::vector<std::string>> predicted_rows() {
  std::vector<std::vector<std::string>> rows;
  for (const auto& line : capstan::split(page("workshop/predicted.md"), '\n')) {
    std::vector<std::string> cells;
    for (const auto& cell : capstan::split(line, '|')) cells.push_back(capstan::trim(cell));
    if (cells.size() == 9 && std::regex_match(cells[2], std::regex("[0-9]+")))
      rows.emplace_back(cells.begin() + 1, cells.end() - 1);
  }
  return rows;
}

// The first group of `pattern` in `text`; empty where it is not there.
std::string found(const std::string& text, const std::string& pattern) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? match[1].str() : "";
}

// The blocks of a page that begin with "# without a GPU", as one script.
std::string laptop_script(const std::string& text) {
  const std::string begin = "```sh\n# without a GPU\n";
  std::string script;
  for (auto at = text.find(begin); at != std::string::npos; at = text.find(begin, at + 1)) {
    const auto from = at + begin.size();
    script += text.substr(from, text.find("```", from) - from);
  }
  return script;
}

}  // namespace

TEST_CASE("docs/workshop/predicted.md has check's numbers", "[workshop]") {
  const Workspace work;
  const auto nothing = [&](const char* name) { return (work.folder() / "none" / name).string(); };
  const auto rows = predicted_rows();
  REQUIRE(rows.size() > 40);
  for (const auto& row : rows) {
    const auto file = (source_dir() / "configs/workshop" / (row[0] + ".toml")).string();
    const auto said = work.run({"check", file, "--gpu", "a100-80g", "--ranks", row[1], "--nodes", row[2],
                                "data.train=" + nothing("train.json"), "data.eval=" + nothing("eval.json")},
                               {{"HF_HOME", nothing("hub")}, {"HF_HUB_CACHE", nothing("hub")}});
    INFO(cat(capstan::join(row, " | "), "\ntools/make-predictions writes the table again\n") << said.all());
    CHECK(found(said.out, "predicted peak of (\\S+ GiB)") == row[3]);
    const auto training = found(said.out, "\ntraining's peak +cuda [^\n]* (\\S+ \\S+)\n");
    CHECK((training.empty() ? row[3] : training) == row[4]);
    CHECK(found(said.out, "\nsum +host +(\\S+ \\S+)") == row[5]);
    CHECK((said.code == 0) == row[6].starts_with("yes"));
    CHECK((said.out.find("less than the 5 %") != std::string::npos) == row[6].ends_with("narrowly"));
  }
}

TEST_CASE("no other page has a prediction of its own, which would become untrue") {
  for (const auto* name : {"workshop/README.md", "workshop/000.md", "workshop/001.md", "workshop/002.md",
                           "workshop/003.md", "workshop/004.md", "slurm.md"}) {
    INFO(name);
    CHECK(found(page(name), "([0-9]+\\.[0-9]+ GiB)").empty());
    CHECK(found(page(name), "\\| ([0-9]+\\.[0-9]+) \\|").empty());
  }
}

TEST_CASE("what the workshop's pages say to type without a GPU runs as it stands", "[workshop]") {
  const Workspace work;
  fs::copy(source_dir() / "configs", work.folder() / "configs", fs::copy_options::recursive);
  fs::create_directories(work.folder() / "build");
  fs::create_directory_symlink(binary_dir(), work.folder() / "build/cpu");
  std::string script = "set -euo pipefail\ncd \"$(dirname \"$0\")\"\n" + laptop_script(page("workshop/README.md"));
  for (const auto* name : {"000", "001", "003", "004"}) {
    const auto commands = laptop_script(page(cat("workshop/", name, ".md")));
    REQUIRE(count(commands, "capstan ") > 1);
    script += cat("echo '", name, "'\n", commands);
  }
  const auto file = work.write("all.sh", script);
  const auto command = cat("bash ", file, " > ", file, ".log 2>&1");
  const auto code = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe,cert-env33-c): one thread
  const auto said = capstan::read_file(file + ".log");
  INFO(said);
  CHECK(code == 0);
  CHECK(count(said, "Warning: the table mixes") == 0);
  CHECK(count(said, "Base, which the others are compared with: ") >= 10);
  // No two exercises share a folder, and the tables stand in the order of their commands.
  for (const auto* run : {"baseline", "zero-baseline", "fsdp-shard_grad_op-1x2", "fsdp-hybrid_shard-1x2"})
    CHECK(fs::exists(work.folder() / "runs" / run / "summary.json"));
}

}  // namespace workshop_pages_test
