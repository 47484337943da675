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
#include <map>
#include <string>
#include <vector>

#include "inference/evaluate.h"
#include "session/session.h"
#include "support/job.h"
#include "train/of_job.h"
#include "train/replica_check.h"
#include "train/schedule.h"
#include "train/step.h"

namespace capstan::testing {

/// What a short run gave, over all ranks; testing::differences compares two.
using SmallRun = Run;

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
inline session::Job prepare_small(const std::string& file, const std::vector<std::string>& overrides, int world,
                                  int rank) {
  setup::JobRequest request;
  request.file = file;
  request.overrides = overrides;
  request.world_size = world;
  request.rank = rank;
  return job_of(request);
}

/// Puts this rank's boxes into whole tensors, by record name.
inline void merge_boxes(std::map<std::string, at::Tensor>& whole, const std::vector<shard::StoredBox>& boxes) {
  for (const auto& stored : boxes) {
    auto& tensor = whole[stored.record->name];
    if (!tensor.defined())
      tensor = at::full(stored.record->shape, std::numeric_limits<double>::quiet_NaN(), stored.value.options());
    auto view = tensor;
    for (std::size_t d = 0; d < stored.box.size.size(); ++d) {
      view = view.narrow(static_cast<std::int64_t>(d), stored.box.offset[d], stored.box.size[d]);
    }
    view.copy_(stored.value.view(stored.box.size));
  }
}

/// The fused groups of these units' records.
inline void note_fused(SmallRun& run, const std::vector<nn::Unit*>& units) {
  for (const auto* unit : units) {
    for (const auto& weight : unit->weights()) {
      std::vector<std::string> names;
      for (const auto& record : weight->records()) names.push_back(record.name);
      for (const auto& name : names) run.fused[name] = names;
    }
  }
}

/// One rank's part of a run; results that are the same on all ranks are taken from rank 0.
inline void run_rank(const session::Job& job, comm::Communicator& communicator, std::int64_t steps, SmallRun& run,
                     std::mutex& mutex) {
  auto session = session::materialise(job, communicator);
  auto feed = train::feed_of(job);
  auto step = train::step_of(job, session);
  train::ReplicaCheck replicas(session, job.topology.mesh, /*every=*/1);
  for (std::int64_t s = 0; s < steps; ++s) {
    const auto input = feed.draw(s);
    const auto mine = job.topology.speaks_for_coordinate() ? input.target_tokens : 0;
    auto count = at::tensor(std::vector<std::int64_t>{mine}, at::kLong);
    session.world_host->all_reduce(count, comm::ReduceOp::sum, "count");
    const auto targets = count.item<std::int64_t>();
    if (s == 0) {
      step.gradients(input, targets);
      const std::lock_guard lock(mutex);
      merge_boxes(run.gradients, session.engine->gradient_boxes());
      note_fused(run, session.units);
    }
    const auto result =
        step.run(input, targets, train::learning_rate(*job.config.optimizer, s, job.samples.plan.steps));
    replicas.run(s + 1);
    if (job.topology.rank != 0) continue;
    const auto metrics = result.numbers.read();
    run.norms.push_back(metrics.grad_norm);
    run.losses.push_back(metrics.loss_sum / static_cast<double>(targets));
  }
  const std::lock_guard lock(mutex);
  merge_boxes(run.weights, session.engine->stored_boxes());
}

/// A run on `world` in-process ranks.
inline SmallRun run_small(int world, const std::vector<std::string>& overrides, std::int64_t steps,
                          const std::string& more = {}) {
  at::set_num_threads(1);
  const auto file = small_config(more);
  SmallRun run;
  std::mutex mutex;
  comm::run_in_process(world, [&](comm::Communicator& communicator) {
    const auto job = prepare_small(file, overrides, world, communicator.world().rank);
    run_rank(job, communicator, steps, run, mutex);
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
