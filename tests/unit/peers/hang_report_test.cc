#include "peers/hang_report.h"

#include <capstan_catch.h>

#include "peers/call_log.h"
#include "peers/ranks_text.h"

namespace hang_report_test {

namespace {
using namespace capstan;         // NOLINT(google-build-using-namespace)
using namespace capstan::peers;  // NOLINT(google-build-using-namespace)

TEST_CASE("hang report: who is there, who is not, and where those are") {
  const CollectiveCall waiting{"all-reduce", "dp", "grad norm", 42,
                               std::chrono::steady_clock::now() - std::chrono::seconds(600)};
  CallLog there;
  (void)there.begin("all-reduce", "dp", "grad norm", 42);
  CallLog elsewhere;
  (void)elsewhere.begin("broadcast", "tp", "weights", 7);
  CallLog after;
  after.end(after.begin("all-reduce", "dp", "grad norm", 41));
  CallLog nowhere;
  CallLog ahead;  // has left the call already: it did arrive
  ahead.end(ahead.begin("all-reduce", "dp", "grad norm", 42));
  const std::string text = hang_report(waiting, {{0, "a", true, describe_calls(there)},
                                                 {1, "a", true, describe_calls(there)},
                                                 {2, "b", true, describe_calls(elsewhere)},
                                                 {3, "b", false, describe_calls(elsewhere)},
                                                 {4, "c", true, describe_calls(after)},
                                                 {5, "c", false, describe_calls(after)},
                                                 {6, "d", true, describe_calls(nowhere)},
                                                 {8, "e", true, ""},
                                                 {9, "f", true, describe_calls(ahead)}});
  CHECK(text ==
        "all-reduce 'grad norm' of group dp, call 42, has not ended for 600 s:\n"
        "    ranks 0, 1, 9 wait in it\n"
        "    ranks 2, 3 on b are in broadcast 'weights' of group tp, call 7\n"
        "    rank 4 on c is in no collective; its last was all-reduce 'grad norm' of group dp, call 41\n"
        "    rank 6 on d is in no collective, and never was\n"
        "    rank 8 on e does not answer\n"
        "    it waits for ranks 2, 4, 6, 8");
  CHECK_THAT(hang_report(waiting, {{0, "a", true, describe_calls(there)}}),
             Contains("    rank 0 waits in it\n    all of its ranks are in it: the network or a device does not finish "
                      "it (capstan preflight measures them)"));
}

TEST_CASE("hang report: ranks that took different paths") {
  const CollectiveCall waiting{"all-gather", "shard", "blocks.13", 42, std::chrono::steady_clock::now()};
  CallLog gathers;
  (void)gathers.begin("all-gather", "shard", "blocks.13", 42);
  CallLog scatters;
  (void)scatters.begin("reduce-scatter", "shard", "blocks.12", 42);
  (void)scatters.begin("all-gather", "shard", "blocks.11", 43);
  (void)scatters.begin("all-gather", "shard", "blocks.10", 44);
  std::vector<Position> ranks;
  for (int rank = 0; rank < 5; ++rank) ranks.push_back({rank, rank < 4 ? "a" : "b", true, describe_calls(gathers)});
  ranks.push_back({5, "b", true, describe_calls(scatters)});
  // A rank that is in a later call of the group has been in this one, unless that was another one there.
  CHECK(hang_report(waiting, ranks) ==
        "all-gather 'blocks.13' of group shard, call 42, has not ended for 0 s:\n"
        "    ranks 0-4 wait in it\n"
        "    rank 5 on b is in reduce-scatter 'blocks.12' of group shard, call 42 and all-gather 'blocks.11' of group "
        "shard, call 43\n"
        "    the ranks call different collectives: each of a group must call the same ones, in the same order");
}

TEST_CASE("ranks in words") {
  CHECK(ranks_text({5}) == "rank 5");
  CHECK(ranks_text({0, 1}) == "ranks 0, 1");
  CHECK(ranks_text({0, 1, 2, 3, 7, 8, 10, 11, 12}) == "ranks 0-3, 7, 8, 10-12");
}

}  // namespace

}  // namespace hang_report_test
