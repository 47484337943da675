#include "step/stop.h"

#include <capstan/comm/communicator.h>
#include <capstan_catch.h>

#include <csignal>
#include <string>

namespace stop_test {

using namespace capstan;

TEST_CASE("no stop was asked for: no reason, no end") {
  const step::Stop stop;
  CHECK_FALSE(stop.asked());
  CHECK(stop.signal() == 0);
  CHECK(std::string(stop.reason()).empty());
  CHECK_FALSE(stop.time_is_up(std::chrono::hours(1000)));
}

TEST_CASE("what a launcher and SLURM send twice is one request; a person's second SIGINT is another") {
  step::Stop stop;
  stop.ask(SIGTERM);
  stop.ask(SIGTERM);
  stop.ask(SIGUSR1);
  CHECK(stop.asks() == 1);
  CHECK(stop.signal() == SIGTERM);
  CHECK(std::string(stop.reason()) == "SIGTERM");
  stop.ask(SIGINT);
  CHECK(stop.asks() == 2);
  CHECK(stop.signal() == SIGTERM);

  step::Stop person;
  const auto first = step::Stop::Clock::now();
  person.ask(SIGINT, first);
  CHECK(person.asks() == 1);
  // To the whole process group: the launcher passes on what this process got itself.
  person.ask(SIGINT, first + step::Stop::together_by_hand);
  CHECK(person.asks() == 1);
  person.ask(SIGINT, first + 2 * step::Stop::together_by_hand + std::chrono::nanoseconds(1));
  CHECK(person.asks() == 2);
}

TEST_CASE("a signal long enough after the first is a second request") {
  step::Stop stop;
  const auto first = step::Stop::Clock::now();
  stop.ask(SIGUSR1, first);
  stop.ask(SIGTERM, first + step::Stop::together);
  CHECK(stop.asks() == 1);
  stop.ask(SIGTERM, first + 2 * step::Stop::together + std::chrono::nanoseconds(1));
  CHECK(stop.asks() == 2);
  CHECK(std::string(stop.reason()) == "SIGUSR1");
}

TEST_CASE("time is up when less is left than is needed") {
  step::Stop stop;
  stop.deadline = step::Stop::Clock::now() + std::chrono::seconds(100);
  CHECK_FALSE(stop.time_is_up(std::chrono::seconds(10)));
  CHECK(stop.time_is_up(std::chrono::seconds(101)));
  stop.deadline = step::Stop::Clock::now() - std::chrono::seconds(1);
  CHECK(stop.time_is_up(std::chrono::seconds(0)));
}

TEST_CASE("one rank's time being up stops all ranks") {
  std::vector<int> stopped_at(2, -1);
  comm::run_in_process(2, [&](comm::Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.world().rank);
    const auto group = communicator.group("all", {0, 1}, c10::Device(c10::DeviceType::CPU));
    const step::Stop stop;
    int part = 0;
    const step::StopAgreement agreement(group, stop, [&] { return rank == 0 && part == 3; });
    try {
      for (; part < 10; ++part) agreement.check();
    } catch (const step::Stopped&) {
      stopped_at[rank] = part;
    }
  });
  CHECK(stopped_at == std::vector<int>{3, 3});
}

TEST_CASE("one rank's request stops all ranks at the same place") {
  std::vector<int> stopped_at(3, -1);
  comm::run_in_process(3, [&](comm::Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.world().rank);
    const auto group = communicator.group("all", {0, 1, 2}, c10::Device(c10::DeviceType::CPU));
    step::Stop stop;
    int part = 0;
    const step::StopAgreement agreement(group, stop);
    try {
      for (; part < 10; ++part) {
        if (rank == 1 && part == 4) stop.ask(SIGTERM);
        agreement.check();
      }
    } catch (const step::Stopped&) {
      stopped_at[rank] = part;
    }
  });
  CHECK(stopped_at == std::vector<int>{4, 4, 4});
}

}  // namespace stop_test
