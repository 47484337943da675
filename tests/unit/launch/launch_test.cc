#include "launch/launch.h"

#include <capstan_catch.h>

#include <map>
#include <string>

#include "launch/variables.h"

namespace launch_test {

using capstan::launch::Launch;
using test::launch;
using test::srun;
using test::Variables;
using test::with;

namespace {

/// The last of four ranks, two on each node.
void check_last_of_two_nodes(const capstan::launch::World& world) {
  CHECK(world.rank == 3);
  CHECK(world.size == 4);
  CHECK(world.local_rank == 1);
  CHECK(world.local_size == 2);
  CHECK(world.node == 1);
  CHECK(world.nodes == 2);
}

const Variables torchrun{{"RANK", "3"},
                         {"WORLD_SIZE", "4"},
                         {"LOCAL_RANK", "1"},
                         {"GROUP_RANK", "1"},
                         {"GROUP_WORLD_SIZE", "2"},
                         {"LOCAL_WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "a"},
                         {"MASTER_PORT", "29500"},
                         {"TORCHELASTIC_RUN_ID", "none"},
                         {"TORCHELASTIC_RESTART_COUNT", "2"},
                         {"TORCHELASTIC_USE_AGENT_STORE", "True"}};

const Variables mpirun{{"OMPI_COMM_WORLD_RANK", "3"},
                       {"OMPI_COMM_WORLD_SIZE", "4"},
                       {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                       {"PMIX_NAMESPACE", "prterun-a-17@1"}};

}  // namespace

TEST_CASE("launch: MASTER_ADDR and MASTER_PORT are honoured") {
  const auto where = launch(with(srun, {{"MASTER_ADDR", "gpu07"}, {"MASTER_PORT", "29501"}})).rendezvous("r");
  CHECK(where.text() == "gpu07:29501");
  CHECK(where.file.empty());
  CHECK_THROWS_WITH(launch(with(srun, {{"MASTER_ADDR", "gpu07"}})),
                    Contains("MASTER_ADDR is set but MASTER_PORT is not"));
  CHECK_THROWS_WITH(launch(with(srun, {{"MASTER_PORT", "29501"}})),
                    Contains("MASTER_PORT is set but MASTER_ADDR is not"));
  CHECK_THROWS_WITH(launch(with(srun, {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "70000"}})),
                    Contains("MASTER_PORT is 70000, not a port"));
  CHECK_THROWS_WITH(launch(with(srun, {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "http"}})),
                    Contains("MASTER_PORT is 'http', not a number"));
}

TEST_CASE("launch: a batch script or an allocation's shell is no step") {
  // Seen: the batch shell has PROCID=0 and NTASKS=4 but no STEP_ID.
  const Launch batch = launch({{"SLURM_JOB_ID", "4711"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}});
  CHECK(batch.world.launcher == "alone");
  CHECK(batch.world.size == 1);
  REQUIRE(batch.warnings.size() == 1);
  CHECK_THAT(batch.warnings[0],
             Contains("running as a single rank inside SLURM job 4711, which has 4 task(s): write srun"));
  CHECK(launch(with(srun, {{"SLURM_STEP_ID", "4294967290"}})).world.launcher == "alone");  // salloc's interactive step
}

TEST_CASE("launch: torchrun, outside and inside srun") {
  for (const Variables& variables : {torchrun, with(srun, torchrun)}) {
    const Launch found = launch(variables);
    CHECK(found.world.launcher == "torchrun");
    check_last_of_two_nodes(found.world);
    CHECK(found.warnings.empty());
    const auto where = found.rendezvous("r");
    CHECK(where.text() == "a:29500");
    CHECK(where.store_exists);
    CHECK(where.prefix == "capstan/none.2");
  }
}

TEST_CASE("launch: torchrun without its run id, and without the agent's store") {
  Variables variables = torchrun;
  variables.erase("TORCHELASTIC_RUN_ID");
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  const Launch found = launch(variables);
  CHECK(found.world.launcher == "torchrun");
  CHECK_FALSE(found.rendezvous("r").store_exists);
  variables.erase("RANK");
  CHECK_THROWS_WITH(launch(variables), Contains("the launcher did not set RANK"));
}

TEST_CASE("launch: OpenMPI's mpirun, outside and inside an allocation") {
  // Inside one its daemons are srun's tasks, whose variables the ranks inherit.
  for (const Variables& variables : {mpirun, with(srun, mpirun)}) {
    const Launch found = launch(variables);
    CHECK(found.world.launcher == "mpi");
    check_last_of_two_nodes(found.world);
    CHECK(found.rendezvous("r").file == "r/rendezvous-prterun-a-17@1");
  }
  Variables nameless = mpirun;
  nameless.erase("PMIX_NAMESPACE");
  CHECK_THROWS_WITH(launch(nameless), Contains("mpirun gives this run no name"));
  CHECK(launch(with(nameless, {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "1234"}})).rendezvous("r").text() == "a:1234");
}

TEST_CASE("launch: a rank of capstan run -n, also inside srun") {
  const Variables local{{"CAPSTAN_RANK", "2"}, {"CAPSTAN_WORLD_SIZE", "4"}, {"CAPSTAN_RENDEZVOUS", "127.0.0.1:4000"}};
  for (const Variables& variables : {local, with(srun, local)}) {
    const Launch found = launch(variables);
    CHECK(found.world.launcher == "local");
    CHECK(found.world.rank == 2);
    CHECK(found.world.local_rank == 2);
    CHECK(found.world.size == 4);
    CHECK(found.world.local_size == 4);
    CHECK(found.world.nodes == 1);
    CHECK(found.rendezvous("r").text() == "127.0.0.1:4000");
    CHECK(found.rendezvous("r").store_exists);
  }
  CHECK_THROWS_WITH(launch({{"CAPSTAN_RANK", "0"}, {"CAPSTAN_WORLD_SIZE", "1"}}),
                    Contains("CAPSTAN_RANK is set but CAPSTAN_RENDEZVOUS is ''"));
}

TEST_CASE("launch: PyTorch's variables that no known launcher has set") {
  const std::map<std::string, std::string> by_hand{{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}};
  CHECK_THROWS_WITH(launch(by_hand), Contains("RANK=1, WORLD_SIZE=4 and MASTER_ADDR are set, but by no launcher") &&
                                         Contains("unset RANK and WORLD_SIZE"));
  CHECK(launch(with(by_hand, {{"WORLD_SIZE", "1"}})).world.launcher == "alone");
  CHECK(launch({{"RANK", "1"}}).world.launcher == "alone");
}

TEST_CASE("launch: alone") {
  const Launch found = launch({{"RANK", "3"}, {"WORLD_SIZE", "4"}});  // an old export, and no launcher
  CHECK(found.world.launcher == "alone");
  CHECK(found.world.rank == 0);
  CHECK(found.world.size == 1);
  REQUIRE(found.warnings.size() == 1);
  CHECK_THAT(found.warnings.front(), Contains("running as a single rank: RANK=3 and WORLD_SIZE=4 are set"));
  CHECK(launch({}).warnings.empty());
}

TEST_CASE("launch: contradictions") {
  CHECK_THROWS_WITH(launch(with(srun, {{"SLURM_PROCID", "8"}})),
                    Contains("SLURM_PROCID=8 and SLURM_NTASKS=8 contradict each other"));
  CHECK_THROWS_WITH(launch(with(torchrun, {{"RANK", "four"}})), Contains("RANK is 'four', not a number"));
  CHECK_THROWS_WITH(launch(with(mpirun, {{"OMPI_COMM_WORLD_RANK", "-1"}})),
                    Contains("OMPI_COMM_WORLD_RANK is '-1', not a number"));
}

}  // namespace launch_test
