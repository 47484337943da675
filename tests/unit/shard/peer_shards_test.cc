// Shards that ranks read from each other's memory.
#include "shard/peer_shards.h"

#include <ATen/ATen.h>
#include <capstan/comm/communicator.h>
#include <capstan_catch.h>

#include <numeric>

using namespace capstan;
using capstan::shard::PeerShards;

namespace {

constexpr int ranks = 3;

std::vector<int> everyone() {
  std::vector<int> all(ranks);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

TEST_CASE("a gather from peers' memory is the group's all-gather, of parts of the shard and of later values too") {
  comm::run_in_process(ranks, [](comm::Communicator& communicator) {
    const auto group = communicator.group("test", everyone(), at::kCPU);
    const auto storage = at::zeros({20}, at::kDouble);
    const auto shard = storage.narrow(0, 4, 12);  // not at its storage's beginning
    const auto peers = PeerShards::open(*group, shard, "a bucket");
    REQUIRE(peers != nullptr);
    CHECK(shard.eq(0).all().item<bool>());
    for (int round = 0; round < 3; ++round) {
      shard.copy_(at::arange(12, at::kDouble) + 100 * group->rank() + 1000 * round);
      group->barrier("all have written");
      const std::vector<at::Tensor> in{shard.narrow(0, 0, 5), shard.narrow(0, 7, 4)};
      std::vector<at::Tensor> out{at::empty({15}, at::kDouble), at::empty({12}, at::kDouble)};
      std::vector<at::Tensor> expected{at::empty({15}, at::kDouble), at::empty({12}, at::kDouble)};
      peers->gather(out, in);
      group->all_gather(expected, in, "expected");
      for (std::size_t i = 0; i < out.size(); ++i) CHECK(at::equal(out[i], expected[i]));
    }
  });
}
