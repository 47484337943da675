#include <capstan_catch.h>

#include <string>
#include <vector>

#include "launch/variables.h"

namespace launch_srun_test {

using capstan::launch::Launch;
using test::launch;
using test::srun;
using test::Variables;
using test::with;

TEST_CASE("launch: srun is known by its step") {
  const Launch found = launch(srun);
  CHECK(found.world.launcher == "srun");
  CHECK(found.world.rank == 5);
  CHECK(found.world.size == 8);
  CHECK(found.world.local_rank == 1);
  CHECK(found.world.local_size == 4);
  CHECK(found.world.node == 1);
  CHECK(found.world.nodes == 2);
  CHECK(found.world.host == "gpu08-ib");
  CHECK(found.nodes == std::vector<std::string>{"gpu07-ib", "gpu08-ib"});
  CHECK(found.warnings.empty());
  CHECK(found.host.empty());  // and never the login node's SLURM_LAUNCH_NODE_IPADDR
  CHECK(found.rendezvous("/shared/run").file == "/shared/run/rendezvous-4711.0.0");
  CHECK(found.rendezvous("/shared/run").prefix == "capstan/4711.0.0");
  CHECK_FALSE(found.rendezvous("/shared/run").store_exists);
}

TEST_CASE("launch: each restart of a job has its own rendezvous") {
  CHECK(launch(with(srun, {{"SLURM_RESTART_COUNT", "3"}})).rendezvous("r").file == "r/rendezvous-4711.0.3");
  CHECK(launch(with(srun, {{"SLURM_STEP_ID", "2"}})).rendezvous("r").file == "r/rendezvous-4711.2.0");
}

TEST_CASE("launch: uneven tasks per node") {
  const Variables uneven = with(srun, {{"SLURM_STEP_TASKS_PER_NODE", "3(x1),5"}});
  CHECK(launch(uneven).world.local_size == 5);
  CHECK(launch(with(uneven, {{"SLURM_NODEID", "0"}})).world.local_size == 3);
}

TEST_CASE("launch: stale torch variables inside srun are ignored, with a warning") {
  const Launch found = launch(with(srun, {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}}));
  CHECK(found.world.rank == 5);
  CHECK(found.world.size == 8);
  REQUIRE(found.warnings.size() == 1);
  CHECK_THAT(found.warnings[0],
             Contains("RANK, WORLD_SIZE, LOCAL_RANK are set but srun started this program: ignored"));
}

}  // namespace launch_srun_test
