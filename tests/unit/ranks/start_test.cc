#include "ranks/start.h"

#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <ATen/ATen.h>

#include <sys/wait.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "peers/local_ranks.h"
#include "support/folder.h"

namespace start_test {

using namespace capstan;

namespace {

using Variables = std::map<std::string, std::string>;

const Variables torchrun{{"RANK", "1"},        {"WORLD_SIZE", "2"},       {"LOCAL_RANK", "1"},
                         {"GROUP_RANK", "0"},  {"GROUP_WORLD_SIZE", "1"}, {"LOCAL_WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"},  {"TORCHELASTIC_RUN_ID", "none"}};

// The fault of a start that never comes to be a rank. What run_as_rank does with signals is undone.
Diagnostic refusal(const launch::RunArguments& arguments, const Variables& variables) {
  const auto pipe = std::signal(SIGPIPE, SIG_DFL);
  const auto size = std::signal(SIGXFSZ, SIG_DFL);
  Diagnostic out;
  try {
    ranks::run_as_rank(arguments, launch::environment(variables),
                       [](ranks::Rank&) -> int { throw std::logic_error("it was to be refused"); });
  } catch (const Error& error) {
    out = error.diagnostics().front();
  }
  std::signal(SIGPIPE, pipe);
  std::signal(SIGXFSZ, size);
  return out;
}

}  // namespace

// The next two run in processes of their own: one starts the other on three ranks, with the configuration
// START_TEST_FILE.
TEST_CASE("parent: sums on three ranks", "[.start]") {
  peers::LocalStart start;
  start.ranks = 3;
  start.arguments = {"test_app", "rank: sums on three ranks"};
  start.environment = ranks::all_variables();
  std::exit(peers::run_local_ranks(start));
}

TEST_CASE("rank: sums on three ranks", "[.start]") {
  launch::RunArguments arguments;
  arguments.config = std::getenv("START_TEST_FILE");
  std::exit(ranks::run_as_rank(arguments, launch::process_environment(), [](ranks::Rank& rank) {
    constexpr std::array<double, 3> values{1e8, -1e8, 1};  // float keeps nothing of a 1 beside 1e8
    const auto sum = at::full({3000}, values.at(static_cast<std::size_t>(rank.launch.world.rank)), at::kFloat);
    rank.communicator->group("all", {0, 1, 2}, at::kCPU)->all_reduce(sum, comm::ReduceOp::sum, "sum");
    return sum.eq(1).all().item<bool>() ? 0 : 3;
  }));
}

TEST_CASE("run.deterministic sums in the order of ranks, and without it Gloo has an order of its own") {
  const test::Folder folder;
  const auto program = std::filesystem::read_symlink("/proc/self/exe").string();
  for (const bool is_deterministic : {true, false}) {
    const auto file = folder.write("a.toml", cat("[run]\ndevice = \"cpu\"\ndir = \"", folder.path().string(),
                                                 "\"\ndeterministic = ", is_deterministic ? "true" : "false", "\n"));
    const auto status = std::system(cat("START_TEST_FILE='", file, "' '", program, "' 'parent: sums on three ranks' >'",
                                        (folder / "out").string(), "' 2>&1")
                                        .c_str());
    INFO(read_file(folder / "out"));
    CHECK(WEXITSTATUS(status) == (is_deterministic ? 0 : 3));
  }
}

TEST_CASE("ranks that another launcher has started start no others") {
  const test::Folder folder;
  launch::RunArguments arguments;
  arguments.config = folder.write("a.toml", "[run]\ndevice = \"cpu\"\n");
  arguments.ranks = 4;
  const auto more = refusal(arguments, torchrun);
  CHECK_THAT(more.what, Contains("-n 4 starts local ranks") && Contains("one of 2 that torchrun started"));
  CHECK(more.fix == "leave -n out");
  arguments.spawn_local = true;
  const auto spawned = refusal(arguments, torchrun);
  CHECK_THAT(spawned.what, Contains("--spawn-local") && Contains("torchrun has started 2"));
  CHECK_FALSE(spawned.fix.empty());
}

TEST_CASE("--spawn-local on the CPU must be told how many ranks") {
  const test::Folder folder;
  launch::RunArguments arguments;
  arguments.config = folder.write("a.toml", "[run]\ndevice = \"cpu\"\n");
  arguments.spawn_local = true;
  const auto fault = refusal(arguments, {});
  CHECK_THAT(fault.what, Contains("one rank a GPU"));
  CHECK_THAT(fault.fix, Contains("-n "));
}

TEST_CASE("a run that a signal stops asks to be queued again only where it saves checkpoints") {
  ranks::Early early;
  early.run.requeue_exit_code = 85;
  early.checkpoint.every_steps = 100;
  CHECK(early.stop_code() == 85);
  early.checkpoint = {};
  CHECK(early.stop_code() == static_cast<int>(ExitCode::interrupted));
}

}  // namespace start_test
