#include "peers/patience.h"

#include <capstan_catch.h>

#include <chrono>
#include <filesystem>
#include <memory>

#include "base/disk_wait.h"

namespace patience_test {

namespace {
using namespace capstan;         // NOLINT(google-build-using-namespace)
using namespace capstan::peers;  // NOLINT(google-build-using-namespace)
using std::chrono::seconds;

// A call that began long ago enough to be looked at, and what a rank sees of it that many seconds after its start.
struct Waiting {
  Waiting(int rank, seconds timeout) : patience(rank, {"a", "b", "c", "d"}, timeout) {}
  void look_at(int second) { patience.look(*store, {call}, call.start + seconds(second)); }
  bool ends_at(int second) const { return patience.ends(call, call.start + seconds(second)); }
  std::unique_ptr<Store> store = serve_store("127.0.0.1", 0, "x");
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

}  // namespace

}  // namespace patience_test
