#include "ranks/rank_table.h"

#include <capstan_catch.h>

#include "ranks/start.h"

namespace rank_table_test {

using namespace capstan;
using namespace capstan::ranks;

namespace {

// A communicator of two ranks; the other one says what this one does.
class Pair final : public comm::Communicator {
 public:
  const comm::World& world() const override { return world_; }
  std::shared_ptr<comm::Group> group(const std::string&, const std::vector<int>&, c10::Device) override { return {}; }
  std::string backend(c10::Device device) const override { return device.is_cuda() ? "nccl" : "gloo"; }
  std::vector<std::string> exchange(const std::string& mine) override { return {mine, mine}; }
  void report_failure(const std::string&) override {}
  std::string rendezvous() const override { return "10.0.0.7:43121"; }

 private:
  comm::World world_;
};

Rank rank_of(const RankRow& row) {
  Rank rank;
  rank.launch.world.size = rank.launch.world.nodes = 2;
  rank.launch.world.launcher = "srun";
  rank.launch.world.host = row.host;
  rank.device.kind = row.gpu.empty() ? "cpu" : "cuda";
  rank.device.description = row.gpu;
  rank.device.identity = row.identity;
  rank.cpus.threads = row.threads;
  rank.cpus.mask = row.cpus;
  rank.cpus.nodes = row.numa;
  rank.communicator = std::make_unique<Pair>();
  return rank;
}

}  // namespace

TEST_CASE("the table at the start") {
  const RankRow first{"gpu07", "0 NVIDIA H200 GPU-1b2f3c4d NUMA 0", "0-7", "0", 8, "gpu07 GPU-1b2f3c4d"};
  const RankRow second{"gpu08", "", "8-15", "", 4, ""};
  for (const RankRow& row : {first, second}) {
    auto rank = rank_of(row);
    if (!row.identity.empty()) CHECK_THROWS_WITH(meet_all(rank), Contains("GPU-1b2f3c4d"));  // both have one
    rank.device.kind = "cpu";
    const auto same = meet_all(rank).back();
    CHECK(same.host == row.host);
    CHECK(same.gpu == row.gpu);
    CHECK(same.cpus == row.cpus);
    CHECK(same.numa == row.numa);
    CHECK(same.threads == row.threads);
    CHECK(same.identity == row.identity);
  }
  auto rank = rank_of(first);
  rank.settings.all = {{"NCCL_ALGO", "Tree"}};
  rank.rows = {first, second};
  const auto said = start_text(rank);
  CHECK_THAT(said, Contains("connected 2/2: 2 ranks on 2 nodes by srun, backend nccl, rendezvous 10.0.0.7:43121\n"
                            "environment: NCCL_ALGO=Tree\n"));
  CHECK_THAT(said, Contains("rank  host   GPU                                CPUs  NUMA  threads\n"));
  CHECK_THAT(said, Contains("0     gpu07  0 NVIDIA H200 GPU-1b2f3c4d NUMA 0  0-7   0     8"));
  CHECK_THAT(said, Contains("1     gpu08  -                                  8-15  -     4"));
  CHECK(start_json(rank) == R"({
  "world_size": 2,
  "nodes": 2,
  "launcher": "srun",
  "backend": "nccl",
  "rendezvous": "10.0.0.7:43121",
  "environment": {
    "NCCL_ALGO": "Tree"
  },
  "ranks": [
    {
      "rank": 0,
      "host": "gpu07",
      "gpu": "0 NVIDIA H200 GPU-1b2f3c4d NUMA 0",
      "cpus": "0-7",
      "numa": "0",
      "threads": 8
    },
    {
      "rank": 1,
      "host": "gpu08",
      "gpu": "",
      "cpus": "8-15",
      "numa": "",
      "threads": 4
    }
  ]
}
)");
}

}  // namespace rank_table_test
