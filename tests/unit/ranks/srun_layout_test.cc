// The workshop's job headers, each as the environment that srun gives to a task of it.
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "launch/launch.h"
#include "ranks/gpu_module.h"

namespace srun_layout_test {

namespace {
using namespace capstan::launch;  // NOLINT(google-build-using-namespace)
using capstan::cat;
using capstan::join;
using capstan::gpus::check_precision;
using capstan::gpus::choose_gpu;
using capstan::gpus::GpuFacts;
using Strings = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

GpuFacts gpus(int count) {
  GpuFacts facts;
  facts.driver = true;
  facts.driver_version = 13000;
  facts.gpus.assign(static_cast<std::size_t>(count), {9, 0, "GPU-0", "NVIDIA H200", "0000:3b:00.0"});
  return facts;
}

/// A task of a step of `nodes` nodes.
struct SlurmStep {
  int nodes = 1;
  int tasks = 1;         ///< in all
  std::string per_node;  ///< SLURM_STEP_TASKS_PER_NODE
  int gpus_on_node = 0;  ///< allocated
  int visible = 0;       ///< to the task
  Variables more;
};

Launch task(const SlurmStep& step, int procid, int local, int node) {
  Variables variables{{"SLURM_JOB_ID", "7"},
                      {"SLURM_STEP_ID", "0"},
                      {"SLURM_PROCID", cat(procid)},
                      {"SLURM_LOCALID", cat(local)},
                      {"SLURM_NODEID", cat(node)},
                      {"SLURM_NTASKS", cat(step.tasks)},
                      {"SLURM_STEP_NUM_TASKS", cat(step.tasks)},
                      {"SLURM_STEP_NUM_NODES", cat(step.nodes)},
                      {"SLURM_STEP_NODELIST", step.nodes == 1 ? "g1" : cat("g[1-", step.nodes, "]")},
                      {"SLURM_STEP_TASKS_PER_NODE", step.per_node}};
  if (step.gpus_on_node > 0) variables["SLURM_GPUS_ON_NODE"] = cat(step.gpus_on_node);
  variables.insert(step.more.begin(), step.more.end());
  return read_launch(environment(variables));
}

/// What becomes of task 0: "device 0", the warnings after it, or the error with its fix.
std::string outcome(const SlurmStep& step, int procid = 0, int local = 0, int node = 0) {
  try {
    const Launch launch = task(step, procid, local, node);
    check_tasks(launch);
    const int device = choose_gpu(gpus(step.visible), launch.world, 13);
    const auto warnings = check_gpus(launch, step.visible);
    return cat("device ", device, warnings.empty() ? "" : ": ", join(warnings, "; "));
  } catch (const capstan::Error& error) {
    return error.what();
  }
}

TEST_CASE("headers that are right") {
  // --nodes=1 --ntasks-per-node=1 --gpus-per-node=1, and the same with two and eight
  CHECK(outcome({1, 1, "1", 1, 1, {}}) == "device 0");
  CHECK(outcome({1, 2, "2", 2, 2, {}}, 1, 1) == "device 1");
  CHECK(outcome({2, 16, "8(x2)", 8, 8, {}}, 15, 7, 1) == "device 7");
  // --gpus=2 --gpus-per-node=1 --ntasks=2 --tasks-per-node=1
  CHECK(outcome({2, 2, "1(x2)", 1, 1, {}}, 1, 0, 1) == "device 0");
  // only --ntasks=2: on one node of two GPUs, or on two of one
  CHECK(outcome({1, 2, "2", 2, 2, {}}) == "device 0");
  CHECK(outcome({2, 2, "1(x2)", 1, 1, {}}) == "device 0");
}

TEST_CASE("--gpus=8 --gpus-per-node=8 --ntasks=2 --tasks-per-node=2: runs, and says that six are idle") {
  const std::string idle =
      "each node has 8 GPUs and uses 2: 6 are idle; write #SBATCH --ntasks-per-node=8 to use all, or #SBATCH "
      "--gpus-per-node=2 to leave them to others";
  // with CUDA_VISIBLE_DEVICES=0,1 as the exercise exports it, and without
  CHECK(outcome({1, 2, "2", 8, 2, {{"CUDA_VISIBLE_DEVICES", "0,1"}}}, 1, 1) == "device 1: " + idle);
  CHECK(outcome({1, 2, "2", 8, 8, {}}, 1, 1) == "device 1: " + idle);
}

TEST_CASE("one task on a node of several GPUs is refused with the line to change") {
  const auto refused = [](const SlurmStep& step, int have) {
    const auto said = outcome(step);
    CHECK_THAT(said, Contains(cat("node g1 has one task but ", have, " GPUs, and each rank uses one")));
    CHECK_THAT(said, Contains(cat("write #SBATCH --ntasks-per-node=", have,
                                  ", or let each task start the rest: srun "
                                  "capstan run --spawn-local")));
  };
  refused({2, 2, "1(x2)", 8, 8, {}}, 8);  // --gpus=16 --gpus-per-node=8 --ntasks=2 --tasks-per-node=1
  refused({1, 1, "1", 2, 2, {}}, 2);      // --gpus=2 --gpus-per-node=2
  refused({2, 2, "1(x2)", 2, 2, {{"SLURM_CPUS_PER_TASK", "4"}}}, 2);  // --ntasks-per-node=1 --gpus-per-node=2
  // one GPU on purpose
  CHECK_THAT(outcome({1, 1, "1", 2, 1, {{"CUDA_VISIBLE_DEVICES", "0"}}}),
             Contains("device 0: each node has 2 GPUs and uses 1: 1 is idle"));
}

TEST_CASE("--ntasks=3 on two nodes is refused: nodes are alike") {
  CHECK_THAT(outcome({2, 3, "2,1", 2, 2, {}}),
             Contains("srun started 2 + 1 = 3 tasks on 2 nodes: each node must have the same number of ranks") &&
                 Contains("write #SBATCH --ntasks-per-node=2 instead of --ntasks=3"));
  // srun -N2 -n4 without more fills a node first
  CHECK_THAT(outcome({2, 4, "3,1", 0, 0, {}}), Contains("srun started 3 + 1 = 4 tasks on 2 nodes") &&
                                                   Contains("--ntasks-per-node=2 instead of --ntasks=4"));
  CHECK_THAT(outcome({3, 5, "2(x2),1", 0, 0, {}}), Contains("srun started 2 + 2 + 1 = 5 tasks on 3 nodes") &&
                                                       Contains("--ntasks-per-node=2 instead of --ntasks=5"));
}

TEST_CASE("--ntasks-per-node=2 --gpus-per-task=1 runs, and is warned of") {
  CHECK(
      outcome({1, 2, "2", 2, 1, {{"SLURM_GPUS_PER_TASK", "1"}, {"CUDA_VISIBLE_DEVICES", "0"}}}, 1, 1) ==
      "device 0: each rank sees one GPU only (--gpus-per-task), so NCCL cannot use NVLink between them: write #SBATCH "
      "--gpus-per-node=2 instead of --gpus-per-task");
}

TEST_CASE("--ntasks-per-node=4 --gpus-per-node=2: more tasks than GPUs") {
  CHECK_THAT(outcome({1, 4, "4", 2, 2, {}}, 3, 3),
             Contains("rank 3 on g1 is number 3 of 4 on its node, which shows 2 GPUs") &&
                 Contains("write #SBATCH --ntasks-per-node=2, or #SBATCH --gpus-per-node=4"));
}

TEST_CASE("hosts of ranks: node after node, or dealt out") {
  const SlurmStep step{2, 4, "2(x2)", 0, 0, {}};
  CHECK(task(step, 3, 1, 1).hosts == Strings{"g1", "g1", "g2", "g2"});
  SlurmStep cyclic = step;
  cyclic.more = {{"SLURM_DISTRIBUTION", "cyclic"}};
  CHECK(task(cyclic, 3, 1, 1).hosts == Strings{"g1", "g2", "g1", "g2"});
}

TEST_CASE("ports that SLURM reserved for the step are rank 0's choice") {
  SlurmStep step{1, 2, "2", 0, 0, {{"SLURM_STEP_RESV_PORTS", "21000-21002,21010"}}};
  CHECK(task(step, 0, 0, 0).rendezvous("r").ports == std::vector<int>{21000, 21001, 21002, 21010});
  step.more["MASTER_ADDR"] = "g1";  // where the others look, whatever is reserved
  step.more["MASTER_PORT"] = "29500";
  CHECK(task(step, 0, 0, 0).rendezvous("r").ports.empty());
  step.more.clear();
  CHECK(task(step, 0, 0, 0).rendezvous("r").ports.empty());
}

TEST_CASE("ranks that one task a node has started: numbered node after node, met as srun's") {
  const SlurmStep step{2, 2, "1(x2)", 4, 4, {{"CAPSTAN_LOCAL_RANK", "2"}, {"CAPSTAN_LOCAL_SIZE", "4"}}};
  const Launch launch = task(step, 1, 0, 1);
  CHECK(launch.world.launcher == "srun");
  CHECK(launch.world.rank == 6);
  CHECK(launch.world.size == 8);
  CHECK(launch.world.local_rank == 2);
  CHECK(launch.world.local_size == 4);
  CHECK(launch.world.node == 1);
  CHECK(launch.world.nodes == 2);
  CHECK(launch.spawned);
  CHECK(launch.hosts == Strings{"g1", "g1", "g1", "g1", "g2", "g2", "g2", "g2"});
  CHECK(launch.rendezvous("r").file == "r/rendezvous-7.0.0");
  CHECK(outcome(step, 1, 0, 1) == "device 2");  // and no word of one task on a node of four GPUs
}

TEST_CASE("gpu: bf16 needs compute capability 8.0") {
  capstan::launch::World world;
  world.host = "g1";
  const GpuFacts::Gpu turing{7, 5, "GPU-1", "Tesla T4", ""};
  CHECK_THROWS_WITH(
      check_precision(turing, "bf16", world),
      Contains("rank 0 on g1: precision bf16 needs compute capability 8.0, this GPU (Tesla T4) has 7.5") &&
          Contains("#SBATCH --constraint=a100"));
  CHECK_NOTHROW(check_precision(turing, "fp16", world));
  CHECK_NOTHROW(check_precision({8, 0, "", "", ""}, "bf16", world));
}

}  // namespace

}  // namespace srun_layout_test
