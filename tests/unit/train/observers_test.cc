#include "train/observers.h"

#include <capstan/base/error.h>
#include <capstan_catch.h>

namespace observers_test {

using namespace capstan;
using namespace capstan::train;

namespace {

// Throws in one call, counts all of them.
class Watcher final : public monitor::Monitor {
 public:
  explicit Watcher(std::string throws_in = {}) : throws_in_(std::move(throws_in)) {}
  void run_started(const monitor::RunStarted&) override { called("run_started"); }
  monitor::Values step_ended(const monitor::StepEnded&) override {
    called("step_ended");
    return {{"steps", calls}};
  }
  monitor::Summary summary(const monitor::RunEnded&) override {
    called("summary");
    return {{{"calls", calls}}, {}};
  }
  void run_failed(const monitor::RunFailed& failed) override {
    called("run_failed");
    failure = failed.what;
  }
  int calls = 0;
  std::string failure;

 private:
  void called(const std::string& name) {
    ++calls;
    if (name == throws_in_) throw Error("no luck");
  }
  std::string throws_in_;
};

}  // namespace

TEST_CASE("a monitor that throws is told nothing more, and the others are") {
  Watcher bad("step_ended"), good;
  Observers observers;
  observers.add("bad", bad);
  observers.add("good", good);
  observers.run_started({});
  observers.step_ended({});
  CHECK(observers.values() == monitor::Values{{"steps", 2}});
  observers.step_ended({});
  CHECK(observers.summary({}).values == monitor::Values{{"calls", 4}});
  CHECK(bad.calls == 2);
  CHECK(good.calls == 4);
}

TEST_CASE("what core's own observers throw ends the run") {
  Watcher own("step_ended");
  Observers observers;
  observers.add("", own);
  CHECK_THROWS_AS(observers.step_ended({}), Error);
}

TEST_CASE("monitors are told of a failure once the run has started; one that throws then changes nothing") {
  Watcher bad("run_failed"), good;
  Observers observers;
  observers.add("bad", bad);
  observers.add("good", good);
  observers.run_failed({"too early", false});
  CHECK(good.calls == 0);
  observers.run_started({});
  observers.run_failed({"no memory left", true});
  CHECK(good.failure == "no memory left");
}

TEST_CASE("summaries are means over the ranks that have a number, texts the first rank's") {
  comm::run_in_process(3, [](comm::Communicator& communicator) {
    const int rank = communicator.world().rank;
    monitor::Summary mine{{{"all", rank}}, {}};
    if (rank > 0) mine.values.emplace_back("some", 10 * rank);
    if (rank > 0) mine.texts.emplace_back("text", "of rank " + std::to_string(rank));
    const auto summary = exchange_summary(mine, communicator);
    CHECK(summary.values == monitor::Values{{"all", 1}, {"some", 15}});
    CHECK(summary.texts == std::vector<std::pair<std::string, std::string>>{{"text", "of rank 1"}});
  });
}

}  // namespace observers_test
