#include "comm/patience.h"

#include <ATen/ATen.h>
#include <capstan/base/line_file.h>
#include <capstan_catch.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <thread>

#include "base/disk_wait.h"
#include "comm/collective_cases.h"
#include "comm/processes.h"
#include "comm/store.h"

namespace patience_test {

// The "rank:" cases run in the processes that the others start.
namespace {
using namespace capstan;        // NOLINT(google-build-using-namespace)
using namespace capstan::comm;  // NOLINT(google-build-using-namespace)
using comm::Store;              // NOLINT(google-build-using-namespace)
using comm_test::as_rank;
using comm_test::check_all_succeeded;
using comm_test::everyone;
using comm_test::rank_options;
using comm_test::run_ranks;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A call that began long ago enough to be looked at, and what a rank sees of it that many seconds after its start.
struct Waiting {
  Waiting(int rank, seconds timeout) : patience(rank, {"a", "b", "c", "d"}, timeout) {}
  void look_at(int second) { patience.look(*store, {call}, call.start + seconds(second)); }
  bool ends_at(int second) const { return patience.ends(call, call.start + seconds(second)); }
  std::unique_ptr<Store> store = Store::serve("127.0.0.1", 0, "x");
  Patience patience;
  CollectiveCall call{"all-reduce", "dp", "gradients", 1, Patience::Clock::now()};
};

TEST_CASE("patience: a call may take longer by the time that a rank was at a disk, as far as it was seen") {
  Waiting waiting(1, seconds(10));
  CHECK_FALSE(waiting.patience.excuses());
  waiting.look_at(0);
  waiting.look_at(2);
  CHECK_FALSE(waiting.ends_at(10));
  CHECK(waiting.ends_at(11));  // no rank has been at a disk
  waiting.patience.pass_on(*waiting.store, {"7 writing /runs/x/run.log", "7", "7", "7"});
  waiting.look_at(3);
  waiting.look_at(5);
  CHECK_FALSE(waiting.ends_at(13));
  CHECK(waiting.ends_at(14));
  CHECK(waiting.patience.excuses());
  waiting.look_at(100);  // this process was suspended
  CHECK_FALSE(waiting.ends_at(15));
  CHECK(waiting.ends_at(16));
  waiting.patience.pass_on(*waiting.store, {"8", "8", "8", "8"});
  waiting.look_at(101);
  CHECK(waiting.ends_at(16));
  waiting.call.start += seconds(50);  // the next call has all of its time, and no more
  CHECK_FALSE(waiting.ends_at(10));
  CHECK(waiting.ends_at(11));
}

TEST_CASE("patience: the first rank that is at no disk says who is, once in a while") {
  Waiting waiting(1, seconds(20));
  waiting.patience.pass_on(*waiting.store, {"7 writing /runs/x/run.log", "7", "7 reading /data", "7"});
  waiting.look_at(9);
  CHECK_FALSE(waiting.patience.news());
  waiting.look_at(10);
  CHECK(waiting.patience.news() ==
        "ranks have waited 10 s for ranks 0, 2 (a), the first of which is writing /runs/x/run.log; if that is long, "
        "the file system is slow");
  CHECK_FALSE(waiting.patience.news());
  waiting.look_at(69);
  CHECK_FALSE(waiting.patience.news());
  waiting.look_at(70);
  CHECK(waiting.patience.news());
  Waiting another(3, seconds(20));
  another.patience.pass_on(*another.store, {"7 writing /runs/x/run.log", "7", "7", "7"});
  another.look_at(10);
  CHECK_FALSE(another.patience.news());
}

TEST_CASE("patience: a heartbeat says what its rank does at a disk, unless it waits in a call itself") {
  CallLog log;
  CHECK(Patience::heartbeat(17, log) == "17");
  const std::filesystem::path file("/data/model.safetensors");
  const DiskWait reads("reading", file);
  CHECK(Patience::heartbeat(18, log) == "18 reading /data/model.safetensors");
  (void)log.begin("all-reduce", "dp", "gradients", 1);
  CHECK(Patience::heartbeat(19, log) == "19");
}

// Rank 0 is at a disk for three times the limit of the others' wait.
void at_slow_disk(const std::function<void(milliseconds)>& work) {
  constexpr seconds limit{2};
  auto options = rank_options();
  options.timeout = limit;
  as_rank(options, [&](Communicator& c) {
    auto group = everyone(c);
    group->barrier("start");
    if (c.world().rank == 0) work(3 * limit);
    group->all_reduce(at::ones({3}), ReduceOp::sum, "gradients");
    if (c.world().rank == 1) std::this_thread::sleep_for(limit / 2);
    c.exchange("");
  });
}

TEST_CASE("rank: one is at a slow disk", "[.rank]") {
  at_slow_disk([](milliseconds time) {
    LineFile::Settings slow;
    slow.write = [&](int, const void*, std::size_t size) {
      std::this_thread::sleep_for(time);
      return static_cast<std::int64_t>(size);
    };
    LineFile("/dev/null", slow).add("a line");
  });
}

TEST_CASE("processes: who writes to a slow disk is waited for, in words") {
  const auto ranks = run_ranks("rank: one is at a slow disk", 3);
  check_all_succeeded(ranks);
  CHECK_THAT(ranks[1].output, Contains("s for rank 0 (here), writing /dev/null; if that is long"));
  CHECK_THAT(ranks[2].output, !Contains("file system is slow"));
}

TEST_CASE("rank: one reads from a slow disk", "[.rank]") {
  at_slow_disk([](milliseconds time) {
    const std::filesystem::path file("/data/model.safetensors");
    const DiskWait reads("reading", file);
    std::this_thread::sleep_for(time);
  });
}

TEST_CASE("processes: who reads from a slow disk is waited for, in words") {
  const auto ranks = run_ranks("rank: one reads from a slow disk", 2);
  check_all_succeeded(ranks);
  CHECK_THAT(ranks[1].output, Contains("s for rank 0 (here), reading /data/model.safetensors; if that is long"));
}

}  // namespace

}  // namespace patience_test
