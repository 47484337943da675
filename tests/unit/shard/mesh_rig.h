#pragma once
// Ranks on a mesh with a tp axis, whose ranks see different samples here, so that the sum over all is known; records
// are marked partial on it.
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "shard/rig.h"

namespace capstan::testing {

/// How a mesh of ranks trains the tiny chain.
struct MeshCase {
  int stage = 0;
  int offload = 0;
  std::int64_t accumulation = 1;
  shard::ReduceWhen reduce = shard::ReduceWhen::step;
  bool deterministic = false;
  int data_ranks = 2;
  int part_ranks = 2;
  shard::ReduceOverride override_sum = {};  ///< for dp
  int copies = 1;                           ///< hybrid: copies among the data ranks
  std::int64_t most_staged = 1 << 20;       ///< elements
};

inline nn::Batch batch_of(const MeshCase& c, std::int64_t micro, int rank) {
  return tiny_batch(micro * c.data_ranks * c.part_ranks + rank);
}

class MeshRig {
 public:
  MeshRig(comm::Communicator& communicator, const MeshCase& c)
      : c_(c), rank_(communicator.world().rank), chain_(rig_chain({})) {
    for (const auto& weight : all_weights(chain_)) {
      for (auto& record : weight->records()) record.partial_axes = {layout::Axis::tp};
    }
    shard::EngineOptions options;
    options.mesh = layout::Mesh({{layout::Axis::replicate, c.copies},
                                 {layout::Axis::dp, c.data_ranks / c.copies},
                                 {layout::Axis::tp, c.part_ranks}});
    options.rank = rank_;
    options.precision = {at::kDouble, at::kDouble, at::kDouble, c10::Device(c10::DeviceType::CPU)};
    options.accumulation = c.accumulation;
    options.reduce = c.reduce;
    options.deterministic = c.deterministic;
    options.most_staged = c.most_staged;
    set_stage(options.policy, c.stage, c.offload);
    options.optimizer = std::make_shared<strategy::Optimizer>(rule);
    if (c.override_sum) options.reduce_overrides[layout::Axis::dp] = c.override_sum;
    const auto mesh = options.mesh;
    engine = std::make_unique<shard::Engine>(options, pointers(chain_), [&](const auto& axes, std::int64_t part) {
      auto& group = groups_[{axes, part}];
      const auto ranks = mesh.ranks_along(axes, rank_);
      if (!group) group = communicator.group(group_name(ranks, part), ranks, c10::Device(c10::DeviceType::CPU));
      return group;
    });
    nn::InitSource source(5);
    engine->fill(source);
    runner_ = std::make_unique<step::UnitRunner>(pointers(chain_));
    for (std::size_t i = 0; i < chain_.size(); ++i) runner_->add_hooks(i, engine->hooks(i));
  }

  void step() {
    for (std::int64_t m = 0; m < c_.accumulation; ++m) {
      engine->begin_backward(m);
      const auto loss = runner_->forward(batch_of(c_, m, rank_)).states;
      runner_->backward(loss, at::ones({}, loss.options()));
    }
  }

  std::shared_ptr<RuleOf> rule = std::make_shared<RuleOf>(0);
  std::unique_ptr<shard::Engine> engine;

 private:
  static std::string group_name(const std::vector<int>& ranks, std::int64_t part) {
    return "ranks from " + std::to_string(ranks.front()) + " by " + std::to_string(ranks.back() - ranks.front()) +
           ", part " + std::to_string(part);
  }
  MeshCase c_;
  int rank_;
  TinyChain chain_;
  std::map<std::pair<std::vector<layout::Axis>, std::int64_t>, std::shared_ptr<comm::Group>> groups_;
  std::unique_ptr<step::UnitRunner> runner_;
};

/// What a step sums, and the parameters after an update with the second step's sums.
struct MeshResult {
  Whole gradients;
  double squared_norm = 0;
  Whole updated;
};

inline MeshResult run_mesh(const MeshCase& c) {
  at::set_num_threads(1);
  MeshResult result;
  std::mutex mutex;
  comm::run_in_process(c.data_ranks * c.part_ranks, [&](comm::Communicator& communicator) {
    MeshRig rig(communicator, c);
    rig.step();
    merge(result.gradients, mutex, rig.engine->gradient_boxes());
    const auto norm = rig.engine->squared_grad_norms().sum().item<double>();
    // The second step writes the gradients again.
    rig.step();
    update_with(rig, [](std::vector<optimizer::Slice>& slices) {
      for (auto& slice : slices) slice.master.sub_(slice.grad);
    });
    merge(result.updated, mutex, rig.engine->stored_boxes());
    const std::lock_guard lock(mutex);
    result.squared_norm += norm;
  });
  return result;
}

}  // namespace capstan::testing
