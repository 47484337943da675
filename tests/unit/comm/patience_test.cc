// Ranks that wait for one at a slow disk.

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

namespace patience_test {

// The "rank:" cases run in the processes that the others start.
namespace {
using namespace capstan;        // NOLINT(google-build-using-namespace)
using namespace capstan::comm;  // NOLINT(google-build-using-namespace)
using comm_test::as_rank;
using comm_test::check_all_succeeded;
using comm_test::everyone;
using comm_test::rank_options;
using comm_test::run_ranks;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Rank 0 is at a disk for three times the limit of the others' wait.
void at_slow_disk(const std::function<void(milliseconds)>& work) {
  constexpr seconds limit{4};  // a beat that comes late on a busy machine counts as 2 s
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
