// Sums of gradients over data ranks, copies, and ranks on an axis without data: tp ranks see different samples here, so
// that the sum over all is known, and records are marked partial on tp.
#include <capstan_catch.h>

#include <atomic>

#include "shard/packing.h"
#include "shard/rig.h"

using namespace capstan;
using namespace capstan::testing;
using comm::Communicator;
using comm::run_in_process;
using layout::Axis;

namespace {

// Sums in another order than the reference's: some 10 additions of 1e-16 each.
constexpr double tolerance = 1e-13;

struct Case {
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

nn::Batch batch_of(const Case& c, std::int64_t micro, int rank) {
  return tiny_batch(micro * c.data_ranks * c.part_ranks + rank);
}

class MeshRig {
 public:
  MeshRig(Communicator& communicator, const Case& c) : c_(c), rank_(communicator.world().rank), chain_(rig_chain({})) {
    for (const auto& weight : all_weights(chain_)) {
      for (auto& record : weight->records()) record.partial_axes = {Axis::tp};
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
    if (c.override_sum) options.reduce_overrides[Axis::dp] = c.override_sum;
    const auto mesh = options.mesh;
    engine = std::make_unique<shard::Engine>(options, pointers(chain_), [&](const auto& axes, std::int64_t part) {
      auto& group = groups_[{axes, part}];
      const auto ranks = mesh.ranks_along(axes, rank_);
      if (!group) group = communicator.group(group_name(ranks, part), ranks, c10::Device(c10::DeviceType::CPU));
      return group;
    });
    nn::InitSource source(5);
    engine->fill(source);
    runner_ = std::make_unique<strategy::UnitRunner>(pointers(chain_));
    for (std::size_t i = 0; i < chain_.size(); ++i) runner_->add_hooks(i, engine->hooks(i));
  }

  void step() {
    for (std::int64_t m = 0; m < c_.accumulation; ++m) {
      engine->begin_micro_step(m);
      const auto loss = runner_->forward(batch_of(c_, m, rank_)).states;
      runner_->backward(loss, at::ones({}, loss.options()));
    }
  }

  std::unique_ptr<shard::Engine> engine;

 private:
  static std::string group_name(const std::vector<int>& ranks, std::int64_t part) {
    return "ranks from " + std::to_string(ranks.front()) + " by " + std::to_string(ranks.back() - ranks.front()) +
           ", part " + std::to_string(part);
  }
  Case c_;
  int rank_;
  TinyChain chain_;
  std::map<std::pair<std::vector<Axis>, std::int64_t>, std::shared_ptr<comm::Group>> groups_;
  std::unique_ptr<strategy::UnitRunner> runner_;
};

struct Result {
  Whole gradients;
  double squared_norm = 0;
  Whole updated;
};

Result run(const Case& c) {
  at::set_num_threads(1);
  Result result;
  std::mutex mutex;
  run_in_process(c.data_ranks * c.part_ranks, [&](Communicator& communicator) {
    MeshRig rig(communicator, c);
    rig.step();
    merge(result.gradients, mutex, rig.engine->gradient_boxes());
    const auto norm = rig.engine->squared_grad_norms().sum().item<double>();
    // The second step writes the gradients again.
    rig.step();
    update_with(*rig.engine, 0, [](std::vector<strategy::Slice>& slices) {
      for (auto& slice : slices) slice.master.sub_(slice.grad);
    });
    merge(result.updated, mutex, rig.engine->stored_boxes());
    const std::lock_guard lock(mutex);
    result.squared_norm += norm;
  });
  return result;
}

void check(const Case& c) {
  INFO("stage " << c.stage << ", offload " << c.offload << ", accumulation " << c.accumulation << ", each micro-step "
                << (c.reduce == shard::ReduceWhen::micro_step) << ", deterministic " << c.deterministic << ", "
                << c.data_ranks << " x " << c.part_ranks);
  std::vector<nn::Batch> batches;
  for (std::int64_t m = 0; m < c.accumulation; ++m) {
    for (int r = 0; r < c.data_ranks * c.part_ranks; ++r) batches.push_back(batch_of(c, m, r));
  }
  const auto expected = plain_gradients({}, batches);
  const auto result = run(c);
  CHECK(close(result.gradients, expected, tolerance));
  double squared = 0;
  for (const auto& [name, gradient] : expected) squared += gradient.square().sum().item<double>();
  CHECK(std::abs(result.squared_norm - squared) <= tolerance * squared);
  Whole updated;
  for (const auto& weight : all_weights(rig_chain({}))) {
    for (const auto& record : weight->records()) updated[record.name] = initial(record) - expected.at(record.name);
  }
  CHECK(close(result.updated, updated, tolerance));
}

}  // namespace

TEST_CASE("partial gradients are summed after the data ranks' sum, in every stage and with offload") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (int offload = 0; offload <= (stage == 3 ? 2 : std::min(stage, 1)); ++offload) {
      for (const bool deterministic : {false, true})
        check({.stage = stage, .offload = offload, .deterministic = deterministic});
    }
  }
}

TEST_CASE("sums that pass through staging piece by piece are those of whole buckets, bit for bit") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (const bool deterministic : {false, true}) {
      Case c{.stage = stage, .accumulation = 2, .deterministic = deterministic, .data_ranks = 3};
      c.reduce = stage % 2 == 0 ? shard::ReduceWhen::step : shard::ReduceWhen::micro_step;
      const auto whole = run(c);
      for (const std::int64_t most : {1, 40, 300}) {  // an element a rank, parts of weights, several weights
        INFO("stage " << stage << ", " << most << " elements");
        c.most_staged = most;
        const auto result = run(c);
        CHECK(bit_equal(result.gradients, whole.gradients));
        CHECK(bit_equal(result.updated, whole.updated));
      }
    }
  }
}

TEST_CASE("pieces are whole weights, or parts of one that is larger") {
  const auto chain = rig_chain({});
  shard::EngineOptions options;
  options.mesh = layout::Mesh({{layout::Axis::dp, 2}});
  set_stage(options.policy, 3);
  options.most_staged = 200;
  const auto plan = shard::make_plan(pointers(chain), options);
  const auto& layer = plan.buckets[1];  // a fused weight, and two more of 64 elements a rank
  REQUIRE(layer.shard_elements == 3 * 64);
  const auto ends = [&](std::int64_t most) {
    std::vector<std::int64_t> list;
    for (const auto& piece : shard::pieces_of(layer, most)) list.push_back(piece.end);
    return list;
  };
  using Ends = std::vector<std::int64_t>;
  CHECK(ends(1000) == Ends{192});
  CHECK(ends(256) == Ends{128, 192});
  CHECK(ends(200) == Ends{64, 128, 192});
  CHECK(ends(80) == Ends{64, 104, 128, 168, 192});
  CHECK(shard::find(plan.staging, shard::Purpose::reduce_staging)->elements == 128);
}

TEST_CASE("partial gradients are summed once a step under accumulation") {
  for (const int stage : {0, 2, 3}) {
    for (const auto reduce : {shard::ReduceWhen::step, shard::ReduceWhen::micro_step})
      check({.stage = stage, .accumulation = 2, .reduce = reduce});
  }
}

TEST_CASE("partial gradients without data ranks, and on three ranks") {
  for (const int stage : {0, 3}) {
    check({.stage = stage, .data_ranks = 1, .part_ranks = 2});
    check({.stage = stage, .data_ranks = 3, .part_ranks = 3});
    check({.stage = stage, .accumulation = 2, .data_ranks = 1, .part_ranks = 3});
  }
}

TEST_CASE("an override of the reduction sums instead of the reducer, and is told where each record lies") {
  for (const int stage : {0, 1, 3}) {
    for (const bool deterministic : {false, true}) {
      std::atomic<int> calls = 0;
      std::atomic<bool> fits = true;
      const auto override_sum = [&](strategy::Bucket& bucket) {
        ++calls;
        const bool sharded = bucket.out.numel() < bucket.gradient.numel();
        fits = fits && sharded == (stage > 0) && bucket.last;
        for (const auto& part : bucket.parts) fits = fits && part.offset + part.numel <= bucket.gradient.numel();
        if (sharded) {
          bucket.group.reduce_scatter(bucket.out, bucket.gradient, "override");
        } else {
          bucket.group.all_reduce(bucket.gradient, comm::ReduceOp::sum, "override");
        }
      };
      check({.stage = stage, .deterministic = deterministic, .override_sum = override_sum});
      CHECK(calls == 2 * 4 * 4);  // steps, buckets, ranks
      CHECK(fits);
    }
  }
}

TEST_CASE("copies' sums are added up once a step, full or by shards") {
  for (const int stage : {0, 2, 3}) {
    for (const auto reduce : {shard::ReduceWhen::step, shard::ReduceWhen::micro_step})
      check({.stage = stage, .accumulation = 2, .reduce = reduce, .data_ranks = 4, .part_ranks = 1, .copies = 2});
  }
}
