// What check says of nodes, and of host memory that the machine it runs on need not have.
#include <capstan/base/exit_code.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "end_to_end/program.h"

namespace check_test {

using namespace end_to_end;
using capstan::ExitCode;

TEST_CASE("check takes ranks to be on one node, or spreads them over the nodes it is told of") {
  const Workspace work;
  const auto file =
      work.write("a.toml", small_config({{"global_batch", ""}}, "[strategy.fsdp]\nmode = \"hybrid_shard\"\n"));
  const auto one = work.run({"check", file, "-n", "8"});
  INFO(one.all());
  CHECK(one.code == 0);
  CHECK_THAT(one.out, Contains("world 8 = dp 8 x ep 1 x tp 1 on cpu\n8 ranks on 1 node\n") &&
                          Contains("all ranks were taken to be on one node: --nodes N says otherwise\n"));
  const auto four = work.run({"check", file, "-n", "8", "--nodes", "4"});
  INFO(four.all());
  CHECK(four.code == 0);
  CHECK_THAT(four.out, Contains("world 8 = dp 8 (replicate 4 x shard 2) x ep 1 x tp 1 on cpu\n"
                                "8 ranks on 4 nodes, 2 on each\n") &&
                           !Contains("--nodes"));
  const auto uneven = work.run({"check", file, "-n", "8", "--nodes", "3"});
  CHECK(uneven.code == static_cast<int>(ExitCode::usage));
  CHECK_THAT(uneven.err, Contains("--nodes 3: 8 ranks do not spread evenly over that many nodes") &&
                             Contains("such as --ranks 9, or other --nodes"));
  const auto no_ranks = work.run({"check", file, "--nodes", "4"});
  CHECK(no_ranks.code == static_cast<int>(ExitCode::usage));
  CHECK_THAT(no_ranks.err, Contains("--nodes 4: 1 rank does not spread evenly") && Contains("such as --ranks 4,"));
}

TEST_CASE("host memory is that of a node: what eight ranks cannot offload on one, they can on four") {
  const Workspace work;
  const auto file = work.write(
      "a.toml", small_config({{"global_batch", ""}}, "[strategy.zero]\nstage = 2\noffload_optimizer = \"cpu\"\n"));
  // Each rank takes some 130 KiB: an eighth of the optimizer and, on CPUs, what it trains with. A node has 512 KiB.
  const std::string memory = "run.host_memory=0.00048828125";
  const auto refused = work.run({"check", file, "-n", "8", memory});
  INFO(refused.all());
  CHECK(refused.code == static_cast<int>(ExitCode::usage));
  CHECK_THAT(refused.err, Contains("for the 8 ranks of a node, and 512.00 KiB are left") &&
                              Contains("use more nodes (check learns of them by --nodes)"));
  const auto taken = work.run({"check", file, "-n", "8", "--nodes", "4", memory});
  INFO(taken.all());
  CHECK(taken.code == 0);
}

TEST_CASE("check --gpu suggests offload whatever memory this machine has, and says how much it takes") {
  const Workspace work;
  // 210 billion parameters: no machine that checks this has room for what they offload.
  const auto file = work.write(
      "a.toml",
      "[model]\nplugin = \"gpt\"\nvocab_size = 50000\nhidden_size = 16384\nnum_layers = 65\nnum_heads = 128\n"
      "seq_length = 512\nattention_dropout = 0.0\n[data]\nplugin = \"synthetic\"\n[train]\nmax_steps = 1\n"
      "precision = \"bf16\"\n[strategy.zero]\nstage = 2\n");
  const auto said = work.run({"check", file, "-n", "2", "--gpu", "24GiB"});
  INFO(said.all());
  CHECK(said.code == static_cast<int>(ExitCode::usage));
  CHECK_THAT(said.out, Contains("\nkeep the optimizer in host memory ") && Contains(" of host memory a rank") &&
                           !Contains("more than run.host_memory"));
  const auto offloaded =
      work.run({"check", file, "-n", "2", "--gpu", "9000GiB", "strategy.zero.offload_optimizer=cpu"});
  INFO(offloaded.all());
  CHECK(offloaded.code == 0);  // whatever host memory this machine has
  CHECK_THAT(offloaded.out, Contains("host memory: a rank needs ") &&
                                Contains("is not known on this machine, which has none: run.host_memory=GIB says it"));
  const auto too_little = work.run(
      {"check", file, "-n", "2", "--gpu", "9000GiB", "strategy.zero.offload_optimizer=cpu", "run.host_memory=64"});
  CHECK(too_little.code == static_cast<int>(ExitCode::usage));
  CHECK_THAT(too_little.err, Contains("offloading needs ") && Contains("and 64.00 GiB are left"));
  const auto told = work.run({"check", file, "-n", "2", "--gpu", "24GiB", "run.host_memory=64"});
  CHECK_THAT(told.out, Contains(" of host memory a rank: more than run.host_memory  strategy.zero.stage=3 "));
}

}  // namespace check_test
