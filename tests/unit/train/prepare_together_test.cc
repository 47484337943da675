#include "train/prepare_together.h"

#include <capstan_catch.h>

#include <filesystem>

#include "support/folder.h"
#include "support/small_run.h"

namespace prepare_together_test {

using namespace capstan;

namespace {

// What each of two ranks is refused with; "" where it has a job.
std::vector<std::string> refusals(const std::vector<std::vector<std::string>>& overrides) {
  const auto file = testing::small_config();
  std::vector<std::string> said(2);
  comm::run_in_process(2, [&](comm::Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.world().rank);
    plugin::Host host;
    setup::JobRequest request;
    request.file = file;
    request.world_size = 2;
    request.rank = static_cast<int>(rank);
    request.overrides = overrides[rank];
    try {
      (void)train::prepare_together(request, host, communicator);
    } catch (const train::ConfigurationRefused& refused) {
      said[rank] = refused.what();
    }
  });
  return said;
}

struct Read {
  std::vector<std::string> ended{"", ""};  // by rank: "read" or "stopped"
  std::vector<std::string> shown;
  bool last = false;
};

// Two ranks read token caches of this folder; `asked` is told to stop before.
Read read_caches(const test::Folder& folder, int asked) {
  Read out;
  const auto file = testing::small_config();
  comm::run_in_process(2, [&](comm::Communicator& communicator) {
    const auto rank = communicator.world().rank;
    auto job = testing::prepare_small(file, {"data.cache=" + folder.path().string()}, 2, rank);
    const auto size = job.samples.train->size();
    const auto before = job.samples.train->get(3).tokens;
    step::Stop stop;
    if (rank == asked) stop.ask(15);
    auto& ended = out.ended[static_cast<std::size_t>(rank)];
    try {
      train::read_token_caches(job, stop, communicator, [&](const std::string& line, bool is_last) {
        if (rank != 0) throw std::logic_error("another rank shows its work");
        out.shown.push_back(line);
        out.last = is_last;
      });
      const bool same = job.samples.train->size() == size && job.samples.train->get(3).tokens == before;
      ended = same ? "read" : "other samples";
    } catch (const step::Stopped&) {
      ended = "stopped";
    }
  });
  return out;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("the faults of one rank are refused on all, with its number; those that all have, without one") {
  CHECK(refusals({{}, {}}) == Words{"", ""});
  const auto one = refusals({{}, {"optimizer.lr=-1"}});
  CHECK_THAT(one[0], Contains("optimizer.lr") && Contains("    on rank 1 of 2\n"));
  CHECK(one[1] == one[0]);
  const auto both = refusals({{"optimizer.lr=-1"}, {"optimizer.lr=-1"}});
  CHECK_THAT(both[0], Contains("optimizer.lr") && !Contains("on rank "));
  CHECK(both[1] == both[0]);
  const auto lowest = refusals({{"optimizer.lr=-2"}, {"optimizer.lr=-1"}});
  CHECK_THAT(lowest[1], Contains("-2") && Contains("    on rank 0 of 2\n"));
}

TEST_CASE("a node's first rank writes the token caches, shows how far it is, and all ranks read them") {
  const test::Folder folder;
  const auto first = read_caches(folder, -1);
  CHECK(first.ended == Words{"read", "read"});
  REQUIRE_FALSE(first.shown.empty());
  CHECK(first.shown.back() == "tokenizing training samples: 70 of 70");
  CHECK(first.last);
  // What is there is soon verified, which is not worth a line.
  const auto again = read_caches(folder, -1);
  CHECK(again.ended == Words{"read", "read"});
  CHECK(again.shown.empty());
}

TEST_CASE("a rank that is asked to stop ends the wait for token caches on all ranks") {
  const test::Folder folder;
  CHECK(read_caches(folder, 1).ended == Words{"stopped", "stopped"});
}

}  // namespace prepare_together_test
