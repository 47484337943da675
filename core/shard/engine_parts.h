#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "shard/bucket.h"
#include "shard/engine.h"
#include "shard/host_update.h"
#include "shard/reducer.h"
#include "shard/schedule.h"

namespace capstan::shard {

/// What an engine is made of.
struct Engine::Parts {
  Parts(EngineOptions engine_options, const std::vector<nn::Unit*>& units, const GroupOf& group_of);

  /// A weight that is trained, by bucket and place in it.
  struct Trained {
    std::size_t bucket;
    std::size_t weight;
  };

  void acquire(std::size_t run, bool with_grad);
  void prefetch(std::optional<std::size_t> run, bool with_grad);
  void release(std::size_t run);
  void collect(std::size_t b);
  void each_counted(std::size_t b, const std::function<void(std::size_t, const Piece&)>& visit) const;
  void list_squares();
  /// The parts of squared_grad_norms() whose gradients are on their way to the host.
  void measure_passing(std::size_t b);
  at::Tensor gradient(std::size_t b, std::size_t w);
  /// The current stream waits for all sums.
  void finish();
  std::vector<strategy::Slice> device_slices(std::size_t states);
  const std::vector<at::Tensor>& device_state(std::size_t t, std::size_t states);
  /// The rule's state of a weight: at least so many tensors, what it has before the first update being zero.
  std::vector<at::Tensor> moments(std::size_t b, std::size_t w, std::size_t states = 0);

  Shared shared;
  Schedule schedule;
  std::vector<std::unique_ptr<Bucket>> buckets;
  std::vector<std::unique_ptr<Reducer>> reducers;
  std::vector<std::vector<std::size_t>> ended_by_run;  ///< tied buckets, complete at the end of backward
  HostUpdate host;
  std::vector<bool> stays;  ///< by run: gathered since forward
  std::vector<Trained> trained;
  std::vector<std::vector<at::Tensor>> state;         ///< by trained weight, on the device
  std::vector<std::shared_ptr<comm::Group>> holders;  ///< sync_module_states: by bucket, ranks along its data axes
  at::Tensor squares;                                 ///< squared norms of what this rank counts: [blocks]
  at::Tensor weight_of_square;                        ///< among the trained
  std::vector<std::int64_t> first_square;             ///< by bucket
  std::int64_t micro_step = 0;
  Reducer* held = nullptr;  ///< the last that was collected
};

}  // namespace capstan::shard
