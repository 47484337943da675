#pragma once
// Launchers' variables as the environment of a process.
#include <map>
#include <string>

#include "launch/launch.h"

namespace test {

using Variables = std::map<std::string, std::string>;

inline capstan::launch::Launch launch(const Variables& variables) {
  return capstan::launch::read_launch(capstan::launch::environment(variables));
}

inline Variables with(Variables base, const Variables& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

/// Rank 5 of `srun -N2 --ntasks-per-node=4`, as SLURM 22.05 sets it.
inline const Variables srun{{"SLURM_JOB_ID", "4711"},
                            {"SLURM_STEP_ID", "0"},
                            {"SLURM_PROCID", "5"},
                            {"SLURM_NTASKS", "8"},
                            {"SLURM_STEP_NUM_TASKS", "8"},
                            {"SLURM_LOCALID", "1"},
                            {"SLURM_NODEID", "1"},
                            {"SLURM_NNODES", "2"},
                            {"SLURM_STEP_NUM_NODES", "2"},
                            {"SLURM_STEP_NODELIST", "gpu[07-08]-ib"},
                            {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
                            {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.99"}};

}  // namespace test
