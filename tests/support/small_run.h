#pragma once
#include <capstan_places.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <capstan/comm/communicator.h>
#include <capstan/testing.h>

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/job.h"
#include "testing/train_rank.h"
#include "train/loop.h"

namespace capstan::testing {

/// What a short run gave, over all ranks; testing::differences compares two.
using SmallRun = TrainResult;

/// A configuration file with a tiny GPT of odd sizes on the small data set, in a fresh temporary folder.
inline std::string small_config(const std::string& more = {}) {
  static std::atomic<int> count{0};
  const auto folder = std::filesystem::temp_directory_path() / ("capstan-test-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto file = folder / ("small-" + std::to_string(count++) + ".toml");
  std::ofstream out(file);
  out << "[run]\nseed = 3\ndevice = \"cpu\"\n"
         "[model]\nplugin = \"gpt\"\nvocab_size = 261\nhidden_size = 12\nnum_layers = 2\nnum_heads = 3\nff_dim = 22\n"
         "seq_length = 130\ndropout = 0.0\n"
         "[data]\nplugin = \"squad\"\ntrain = \"" CAPSTAN_SOURCE_DIR
         "/configs/data/mini_squad_train.json\"\n"
         "train_samples = 70\nmax_length = 97\n"
         "[train]\nmax_steps = 20\nglobal_batch = 48\naccumulation = 1\nprecision = \"fp64\"\n"
         "[optimizer]\nlr = 1e-2\nwarmup_steps = 3\nschedule = \"cosine\"\nclip = 1.0\n"
      << more;
  return file.string();
}

/// The job of one rank.
inline job::Job prepare_small(const std::string& file, const std::vector<std::string>& overrides, int world, int rank) {
  setup::JobRequest request;
  request.file = file;
  request.overrides = overrides;
  request.world_size = world;
  request.rank = rank;
  return job_of(request);
}

/// One rank's part of a run. Every step's replicas must be equal.
inline void run_rank(const job::Job& job, comm::Communicator& communicator, std::int64_t steps, Collected& collected) {
  train_rank(job, communicator, {.end = steps, .verify_replicas = 1}, collected);
}

/// A run on `world` in-process ranks.
inline SmallRun run_small(int world, const std::vector<std::string>& overrides, std::int64_t steps,
                          const std::string& more = {}) {
  at::set_num_threads(1);
  const auto file = small_config(more);
  SmallRun run;
  Collected collected(run);
  comm::run_in_process(world, [&](comm::Communicator& communicator) {
    const auto job = prepare_small(file, overrides, world, communicator.world().rank);
    run_rank(job, communicator, steps, collected);
  });
  return run;
}

/// max|a-b| / max|b|: the project's measure of how far two tensors are apart.
inline double distance(const at::Tensor& a, const at::Tensor& b) {
  const auto largest = b.abs().max().item<double>();
  const auto difference = (a - b).abs().max().item<double>();
  return largest == 0 ? difference : difference / largest;
}

}  // namespace capstan::testing
