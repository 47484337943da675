#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "shard/bucket_parameters.h"
#include "shard/engine.h"
#include "shard/executor.h"
#include "shard/gather_protocol.h"
#include "shard/gather_scales.h"
#include "shard/host_update.h"
#include "shard/in_flight.h"
#include "shard/reducer.h"

namespace capstan::shard {

/// The members of an engine, and its Executor.
struct Engine::Parts : public Executor {
  Parts(EngineOptions engine_options, const std::vector<nn::Unit*>& units, const GroupOf& group_of);

  void prefetch(std::size_t bucket, bool keep) override { parameters[bucket]->prefetch(keep); }
  void acquire(std::size_t bucket) override { parameters[bucket]->acquire(); }
  void release(std::size_t bucket) override { parameters[bucket]->release(); }
  void reduce(std::size_t bucket, const Reduction& how) override;
  void bind(std::size_t bucket, bool looks_up) override { parameters[bucket]->bind(looks_up); }
  void add_rows(std::size_t bucket, const Reduction& how) override;

  /// A weight that is trained, by bucket and place in it.
  struct Trained {
    std::size_t bucket;
    std::size_t weight;
  };

  const BucketPlan& plan(std::size_t bucket) const { return shared.plan.buckets[bucket]; }
  void each_owned(std::size_t b, const std::function<void(std::size_t, const RecordShard&)>& visit) const;
  void list_squares();
  /// The elements of squared_grad_norms() whose gradients are being copied to the host.
  void measure_offloaded(std::size_t b);
  at::Tensor gradient(std::size_t b, std::size_t w);
  /// The current stream waits for all sums.
  void finish();
  /// With `copies`, the rule is to write the masters' copies too.
  std::vector<strategy::Slice> device_slices(std::size_t states, bool copies);
  const std::vector<at::Tensor>& device_state(std::size_t t, std::size_t states);
  /// The rule's state of a weight: at least so many tensors, zero before the first update.
  std::vector<at::Tensor> moments(std::size_t b, std::size_t w, std::size_t states);
  /// After masters of trained buckets have changed, and on_host's have been published: updates all copies of them, or
  /// with `copied` all but those that device_slices() had.
  void publish(bool copied = false);

  Shared shared;
  GatherProtocol protocol;
  std::vector<std::unique_ptr<BucketParameters>> parameters;  ///< by bucket
  std::vector<std::unique_ptr<Reducer>> reducers;             ///< by bucket
  std::unique_ptr<GatherScales> scales;
  HostUpdate host;
  std::vector<Trained> trained;
  std::vector<std::vector<at::Tensor>> state;         ///< by trained weight, on the device
  std::vector<std::shared_ptr<comm::Group>> holders;  ///< sync_module_states: by bucket, ranks along its data axes
  at::Tensor squares;                                 ///< squared norms of what this rank owns: [blocks]
  at::Tensor weight_of_square;                        ///< among the trained
  std::vector<std::int64_t> first_square;             ///< by bucket
  InFlight in_flight;
};

}  // namespace capstan::shard
