#include "train/collective_clock.h"

#include <ATen/ATen.h>
#include <capstan/comm/communicator.h>
#include <capstan_catch.h>

#include <array>
#include <memory>
#include <numeric>
#include <thread>

namespace collective_clock_test {

using namespace capstan;

TEST_CASE("the rank that comes late is in collectives least") {
  std::array<double, 3> seconds{};
  comm::run_in_process(3, [&](comm::Communicator& communicator) {
    const int rank = communicator.world().rank;
    const auto clock = std::make_shared<train::CollectiveClock>(c10::Device(c10::kCPU));
    communicator.trace(clock);
    const auto group = communicator.group("all", {0, 1, 2}, c10::Device(c10::kCPU));
    const auto tensor = at::ones({1});
    group->all_reduce(tensor, comm::ReduceOp::sum, "to begin together");
    clock->forget();
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    group->all_reduce(tensor, comm::ReduceOp::sum, "gradients");
    const auto measured = clock->next_step();
    if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    group->all_reduce(tensor, comm::ReduceOp::sum, "checkpoint sizes");
    const auto of_checkpoint = clock->next_step();
    if (of_checkpoint != 0.0) throw std::runtime_error("a checkpoint's collective counts");
    seconds[static_cast<std::size_t>(rank)] = measured.value_or(-1);
    communicator.trace(nullptr);
  });
  CHECK(seconds[0] > 0.15);
  CHECK(seconds[2] > 0.15);
  CHECK(seconds[1] < 0.1);
  const auto values = train::slowest_rank({seconds.begin(), seconds.end()});
  REQUIRE(values.size() == 2);
  CHECK(values[0] == std::pair<std::string, double>("slowest_rank", 1));
  CHECK(values[1].second > 0.05);
  CHECK(values[1].second < 10);
}

TEST_CASE("one rank waits for no other") {
  CHECK(train::slowest_rank({0.5}).empty());
  CHECK(train::slowest_rank({}).empty());
}

}  // namespace collective_clock_test
