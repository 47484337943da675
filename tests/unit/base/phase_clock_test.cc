#include "base/phase_clock.h"

#include <capstan_catch.h>

#include <chrono>
#include <numeric>
#include <thread>

namespace phase_clock_test {

using capstan::PhaseClock;

namespace {

void wait(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

}  // namespace

TEST_CASE("phases have the time since the last one's end, in the order of their first ends") {
  PhaseClock clock;
  clock.end("begin");
  wait(0.2);
  clock.end("data");
  clock.end("model");
  wait(0.1);
  clock.end("data");
  const auto& seconds = clock.seconds();
  REQUIRE(seconds.size() == 3);
  CHECK(seconds[0].first == "begin");
  CHECK(seconds[1].first == "data");
  CHECK(seconds[2].first == "model");
  CHECK(seconds[1].second >= 0.3);
  CHECK(seconds[2].second < 0.1);
}

TEST_CASE("the first phase began with the process") {
  const auto age = [] {
    PhaseClock clock;
    clock.end("all");
    return clock.seconds().front().second;
  };
  const auto begin = std::chrono::steady_clock::now();
  const double before = age();
  wait(0.5);
  const double after = age();
  const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  CHECK(before >= 0);
  CHECK(after - before >= 0.45);  // the system counts the process's beginning in hundredths of a second
  CHECK(after - before <= passed + 0.05);
}

}  // namespace phase_clock_test
