#include "train/step_pipeline.h"

#include <ATen/Parallel.h>
#include <capstan_catch.h>

#include <chrono>
#include <thread>

#include "support/folder.h"
#include "support/small_run.h"

namespace step_pipeline_test {

using namespace capstan;

namespace {

// Who is told of steps.
class Watcher final : public monitor::Monitor {
 public:
  monitor::Values step_ended(const monitor::StepEnded& event) override {
    events.push_back(event);
    return {};
  }
  std::vector<monitor::StepEnded> events;
};

using Requests = std::function<step::Requests(int rank, int call)>;
using Work = std::function<void(train::StepPipeline&, const Watcher&, int rank)>;

// Two ranks with 6 steps ahead; `requests` is asked with the number of earlier calls.
void with_pipeline(const Requests& requests, const Work& work) {
  at::set_num_threads(1);
  const auto file = testing::small_config();
  const test::Folder folder;
  comm::run_in_process(2, [&](comm::Communicator& communicator) {
    const auto rank = communicator.world().rank;
    const auto job = testing::prepare_small(file, {"train.max_steps=6", "train.global_batch=24"}, 2, rank);
    auto session = step::materialise(job, communicator);
    train::Observers observers;
    Watcher watcher;
    observers.add("", watcher);
    int calls = 0;
    train::StepPipeline pipeline(session, folder.path(), observers, [&] { return requests(rank, calls++); });
    work(pipeline, watcher, rank);
  });
}

step::Requests none(int /*rank*/, int /*call*/) { return {}; }

void require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

}  // namespace

TEST_CASE("one rank's wish to stop, said while a step is under way, stops all ranks before the next one") {
  const auto stops = [](int rank, int call) {
    step::Requests requests;
    requests.stop = rank == 1 && call == 2;
    requests.save = rank == 0 && call == 1;
    return requests;
  };
  with_pipeline(stops, [](auto& pipeline, const auto& watcher, int /*rank*/) {
    pipeline.begin(0);
    require(pipeline.take(0), "step 0 is not taken");
    require(!pipeline.agreed().save, "a checkpoint is due too early");
    require(pipeline.take(1), "step 1 is not taken");
    require(pipeline.agreed().save, "no checkpoint is due");
    require(!pipeline.take(2), "step 2 is taken");
    require(pipeline.agreed().stop, "the ranks do not stop");
    pipeline.drain();
    require(watcher.events.size() == 2, "another number of steps was told");
  });
}

TEST_CASE("observers are told all steps in order, with the sums over ranks, and the last one begins none") {
  with_pipeline(none, [](auto& pipeline, const auto& watcher, int /*rank*/) {
    require(pipeline.longest_step_s() == 0, "a step has a time before it is done");
    pipeline.begin(4);
    require(pipeline.take(4) && pipeline.take(5), "a step is not taken");
    pipeline.drain();
    pipeline.stop();  // nothing is under way
    require(pipeline.agreed().stop, "the ranks do not stop");
    require(watcher.events.size() == 2, "another number of steps was told");
    for (std::size_t i = 0; i < 2; ++i) {
      const auto& event = watcher.events[i];
      require(event.step == static_cast<std::int64_t>(4 + i), "another step");
      require(event.lr > 0 && event.loss > 0 && event.grad_norm > 0, "a number is missing");
    }
    // An epoch has 70 samples.
    require(watcher.events[0].samples == 24, "not the samples of all ranks");
    require(watcher.events[1].samples == 22, "not those of the epoch's last batch");
    const auto longest = std::max(watcher.events[0].step_time_s, watcher.events[1].step_time_s);
    require(pipeline.longest_step_s() == longest, "another longest step");
  });
}

TEST_CASE("time that is left out is not the step's") {
  with_pipeline(none, [](auto& pipeline, const auto& watcher, int /*rank*/) {
    pipeline.begin(0);
    require(pipeline.take(0), "step 0 is not taken");
    constexpr double pause_s = 2;  // a step of this model takes some ms
    std::this_thread::sleep_for(std::chrono::duration<double>(pause_s));
    pipeline.leave_out();
    require(pipeline.take(1), "step 1 is not taken");
    std::this_thread::sleep_for(std::chrono::duration<double>(pause_s));
    require(pipeline.take(2), "step 2 is not taken");
    pipeline.drain();
    require(watcher.events[1].step_time_s < pause_s, "the step's time has what was left out");
    require(watcher.events[1].step_time_s > 0, "a step takes no time");
    require(watcher.events[2].step_time_s > pause_s, "what was not left out is missing");
    pipeline.stop();
  });
}

}  // namespace step_pipeline_test
