#pragma once
// Small folders as runs leave them.
#include <capstan/base/text.h>

#include <string>

#include "support/folder.h"

namespace test {

struct Wanted {
  int ranks = 1;
  int nodes = 1;
  double runtime_s = 100;
  std::string options = {};       ///< more of config.toml
  std::string more_summary = {};  ///< more of summary.json, with a comma after it
  bool on_cpus = false;
};

/// A run of 4 steps of 10 samples, each of which took 1 s; 40 samples in `runtime_s`.
inline std::string make_run(const Folder& folder, const std::string& name, const Wanted& wanted = {}) {
  using capstan::cat;
  std::string metrics;
  for (int step = 0; step < 4; ++step) {
    metrics += cat("{\"step\":", step, ",\"epoch\":0,\"loss\":", 4 - step, ".5,\"lr\":0.001,\"grad_norm\":2.0,",
                   "\"samples\":10,\"tokens\":100,\"step_time_s\":", step == 0 ? 5 : 1, "}\n");
    if (step % 2 == 1) {
      metrics +=
          cat("{\"step\":", step + 1, ",\"epoch\":", step == 1 ? "1.0" : "1.93",
              ",\"split\":\"eval\",\"samples\":50,\"runtime_s\":2.0,\"loss\":", step == 1 ? "1.25" : "1.5", "}\n");
    }
  }
  folder.write(name + "/metrics.jsonl", metrics);
  folder.write(name + "/launch.json", cat("{\"world_size\":", wanted.ranks, ",\"nodes\":", wanted.nodes,
                                          ",\"ranks\":[{\"rank\":0,\"host\":\"node7\"}]}"));
  folder.write(name + "/config.toml", "[train]\nmicro_batch = 4\naccumulation = 2\n" + wanted.options);
  folder.write(name + "/summary.json",
               cat("{\"name\":\"", name, "\",", wanted.more_summary, "\"world_size\":", wanted.ranks,
                   ",\"parameters\":1234567,\"steps_per_epoch\":2,\"samples\":40,\"runtime_s\":", wanted.runtime_s,
                   ",\"train_loss\":3.0,\"last_loss\":1.5,\"peak_memory_bytes\":[{\"device\":",
                   wanted.on_cpus ? "0,\"host\":536870912},{\"device\":0" : "1073741824},{\"device\":2147483648",
                   ",\"host\":1610612736}]}"));
  return (folder.path() / name).string();
}

/// gpu_memory/ of two GPUs on two hosts; node7 is rank 0's.
inline void add_gpu_logs(const Folder& folder, const std::string& name) {
  const std::string head = "timestamp, index, name, memory.used [MiB], memory.total [MiB]\n";
  std::string lines = head;
  const int used[] = {1, 1000, 3000, 3000, 1000};
  for (int i = 0; i < 5; ++i) {
    lines += capstan::cat("2025/12/05 23:59:", 50 + 2 * i, ".000, 0, NVIDIA A100, ", used[i], " MiB, 81920 MiB\n",
                          "2025/12/05 23:59:", 50 + 2 * i, ".001, 1, NVIDIA A100, 7 MiB, 81920 MiB\n");
  }
  folder.write(name + "/gpu_memory/gpu_memory_log_node7.csv", lines + "2025/12/06 00:00:0");
  folder.write(name + "/gpu_memory/gpu_memory_log_node1.csv",
               head + "2025/12/05 23:59:50.000, 0, NVIDIA A100, 9 MiB, 81920 MiB\n");
}

}  // namespace test
