#include "ranks/rank_table.h"

#include <capstan_catch.h>

#include <nlohmann/json.hpp>

using namespace capstan;
using namespace capstan::ranks;

TEST_CASE("the table at the start") {
  const RankRow first{"gpu07", "0 NVIDIA H200 GPU-1b2f3c4d NUMA 0", "0-7", "0", 8, "gpu07 GPU-1b2f3c4d"};
  const RankRow second{"gpu08", "", "8-15", "", 4, ""};
  for (const RankRow& row : {first, second}) {
    const auto same = RankRow::parse(row.serialized());
    CHECK(same.host == row.host);
    CHECK(same.gpu == row.gpu);
    CHECK(same.cpus == row.cpus);
    CHECK(same.numa == row.numa);
    CHECK(same.threads == row.threads);
    CHECK(same.identity == row.identity);
  }
  const Connections connections{2, 2, "srun", "nccl", "10.0.0.7:43121", {{"NCCL_ALGO", "Tree"}}};
  const auto said = start_text(connections, {first, second});
  CHECK_THAT(said, Contains("connected 2/2: 2 ranks on 2 nodes by srun, backend nccl, rendezvous 10.0.0.7:43121\n"
                            "environment: NCCL_ALGO=Tree\n"));
  CHECK_THAT(said, Contains("rank  host   GPU                                CPUs  NUMA  threads\n"));
  CHECK_THAT(said, Contains("0     gpu07  0 NVIDIA H200 GPU-1b2f3c4d NUMA 0  0-7   0     8"));
  CHECK_THAT(said, Contains("1     gpu08  -                                  8-15  -     4"));
  const auto json = start_json(connections, {first, second});
  CHECK_THAT(json, Contains(R"("rendezvous": "10.0.0.7:43121")") && Contains(R"("NCCL_ALGO": "Tree")") &&
                       Contains(R"("cpus": "8-15")"));
}
