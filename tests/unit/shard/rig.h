#pragma once
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <capstan/comm/communicator.h>
#include <torch/csrc/autograd/autograd.h>
#include "step/unit_runner.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "nn/init_source.h"
#include "shard/engine.h"
#include "strategy/tiny_units.h"

namespace capstan::testing {

/// Collects what ranks find wrong: Catch's own assertions are for one thread.
class Faults {
 public:
  void expect(bool condition, const std::string& what) {
    if (condition) return;
    const std::lock_guard lock(mutex_);
    list_.push_back(what);
  }
  const std::vector<std::string>& list() const { return list_; }

 private:
  std::mutex mutex_;
  std::vector<std::string> list_;
};

/// How a tiny chain is held by the engine.
struct RigOptions {
  bool sharded = true;
  std::int64_t accumulation = 1;
  shard::ReduceWhen reduce = shard::ReduceWhen::step;
  shard::Precision precision{at::kDouble, at::kDouble, at::kDouble, c10::Device(c10::DeviceType::CPU)};
  bool reshard_after_forward = true;
  bool gathers_once = false;
  bool holds = false;
  bool layer2_trains = true;
  bool coalesce = false;
  /// A micro-batch's tokens; with any, the table is one of 61 rows that an nn::Embedding looks up, and `tied` says
  /// whether the head uses it too.
  std::int64_t micro_tokens = 0;
  bool tied = true;
  /// Used instead of Rig::rule; groups instead of both.
  std::shared_ptr<optimizer::Rule> optimizer = {};
  std::vector<strategy::OptimizerGroup> groups = {};
  /// Changes the policy once the fields above have set it.
  std::function<void(strategy::ShardPolicy&)> policy = {};
};

/// What a decoder's embedding is.
class TinyLookup : public TinyUnit {
 public:
  explicit TinyLookup(nn::WeightPtr table)
      : TinyUnit("table"), layer_(*this, "lookup", nn::WeightSplit::vocabulary, add(std::move(table))) {}

 private:
  nn::Hidden compute(nn::Hidden hidden, const nn::Batch& batch) override {
    hidden.states = layer_.forward(batch.tokens);
    return hidden;
  }
  nn::Embedding layer_;
};

/// table, two layers of odd sizes, and a head that uses the table too and has a weight of its own.
inline TinyChain rig_chain(const RigOptions& options) {
  const bool looks_up = options.micro_tokens > 0;
  const auto table = tiny_weight("table", {looks_up ? 61 : 7, 5}, true);
  TinyChain chain;
  if (looks_up) {
    chain.push_back(std::make_unique<TinyLookup>(table));
  } else {
    chain.push_back(std::make_unique<TinyTable>(table, false));
  }
  chain.push_back(std::make_unique<TinyLayer>("layer1", true, TinyLayer::Sizes{}, 0.2));
  chain.push_back(std::make_unique<TinyLayer>("layer2", options.layer2_trains, TinyLayer::Sizes{5, 2, 9}, 0.2));
  const auto of_head = options.tied ? table : tiny_weight("output", {7, 5}, true);
  chain.push_back(std::make_unique<TinyHead>(of_head, tiny_weight("head", {5}, true)));
  return chain;
}

/// ZeRO's stages as a policy; offload 1: optimizer state, 2: parameters too.
inline void set_stage(strategy::ShardPolicy& policy, int stage, int offload = 0) {
  policy.shard_optim = stage >= 1;
  policy.shard_grad = stage >= 2;
  policy.shard_param = stage >= 3;
  policy.offload_optim = offload >= 1;
  policy.offload_param = offload >= 2;
}

/// An optimizer's rule from functions, with some states of a slice's size.
class RuleOf : public optimizer::Rule {
 public:
  using Apply = std::function<void(std::vector<optimizer::Slice>&)>;
  explicit RuleOf(std::size_t states) : states_(states) {}
  void set(Apply apply) { apply_ = std::move(apply); }
  std::vector<optimizer::StateSpec> states(const layout::Param& /*record*/) const override {
    std::vector<optimizer::StateSpec> specs;
    for (std::size_t i = 0; i < states_; ++i) specs.push_back({"state_" + std::to_string(i)});
    return specs;
  }
  void apply(std::vector<optimizer::Slice>& slices, const optimizer::Update& /*update*/) override { apply_(slices); }

 private:
  std::size_t states_;
  Apply apply_;
};

/// One rank's chain, engine and runner.
struct Rig {
  TinyChain chain;
  std::shared_ptr<RuleOf> rule = std::make_shared<RuleOf>(2);
  std::unique_ptr<shard::Engine> engine;
  std::unique_ptr<step::UnitRunner> runner;
  std::shared_ptr<comm::Group> group;

  /// Outermost hooks of each unit, before the engine's own; null for none.
  using Observe = std::function<std::unique_ptr<strategy::UnitHooks>(std::size_t)>;

  Rig(comm::Communicator& communicator, const RigOptions& options, const Observe& outside = {},
      const Observe& inside = {})
      : chain(rig_chain(options)) {
    const auto world = communicator.world().size;
    std::vector<int> everyone(static_cast<std::size_t>(world));
    for (int r = 0; r < world; ++r) everyone[static_cast<std::size_t>(r)] = r;
    group = communicator.group("data", everyone, c10::Device(c10::DeviceType::CPU));
    shard::EngineOptions engine_options;
    engine_options.mesh = layout::Mesh({{layout::Axis::dp, world}});
    engine_options.rank = communicator.world().rank;
    engine_options.precision = options.precision;
    auto& policy = engine_options.policy;
    policy.shard_param = policy.shard_grad = policy.shard_optim = options.sharded;
    policy.reshard_after_forward = options.reshard_after_forward;
    policy.owner = "test";
    if (options.policy) options.policy(policy);
    engine_options.coalesce = options.coalesce;
    engine_options.micro_tokens = options.micro_tokens;
    engine_options.reduce = options.reduce;
    engine_options.accumulation = options.accumulation;
    engine_options.gathers_once = options.gathers_once;
    engine_options.holds = options.holds;
    if (!options.groups.empty()) {
      engine_options.optimizer = std::make_shared<strategy::Optimizer>(options.groups, 0, false);
    } else if (options.optimizer) {
      engine_options.optimizer = std::make_shared<strategy::Optimizer>(options.optimizer);
    } else {
      engine_options.optimizer = std::make_shared<strategy::Optimizer>(rule);
    }
    engine = std::make_unique<shard::Engine>(engine_options, pointers(chain), [&](const auto&, std::int64_t part) {
      return neighbours(communicator, part);
    });
    nn::InitSource source(5);
    engine->fill(source);
    runner = std::make_unique<step::UnitRunner>(pointers(chain));
    for (std::size_t i = 0; i < chain.size(); ++i) {
      if (outside) runner->add_hooks(i, outside(i));
      runner->add_hooks(i, engine->hooks(i));
      if (inside) runner->add_hooks(i, inside(i));
    }
  }

  void micro_step(std::int64_t index, const nn::Batch& batch) {
    engine->begin_backward(index);
    const auto loss = runner->forward(batch).states;
    runner->backward(loss, at::ones({}, loss.options()));
  }

 private:
  /// All ranks; with `part` this rank's block of `part` ranks.
  std::shared_ptr<comm::Group> neighbours(comm::Communicator& communicator, std::int64_t part) {
    if (part == 0) return group;
    auto& made = neighbours_[part];
    std::vector<int> ranks(static_cast<std::size_t>(part));
    const auto block = communicator.world().rank / static_cast<int>(part);
    std::iota(ranks.begin(), ranks.end(), block * static_cast<int>(part));
    if (!made) made = communicator.group("block " + std::to_string(block), ranks, c10::Device(c10::DeviceType::CPU));
    return made;
  }
  std::map<std::int64_t, std::shared_ptr<comm::Group>> neighbours_;
};

/// Updates with a function that does not care for learning rate or norm.
template <class AnyRig>
void update_with(AnyRig& rig, RuleOf::Apply apply) {
  rig.rule->set(std::move(apply));
  rig.engine->update(0, {});
  rig.engine->finish_update();
}

/// The record's initial value, whole.
inline at::Tensor initial(const layout::Param& record, c10::ScalarType dtype = at::kDouble) {
  nn::InitSource source(5);
  auto out = at::empty(record.shape, at::TensorOptions().dtype(dtype));
  source.fill(record, layout::Box::whole(record.shape), out);
  return out;
}

/// The weight's initial value as its layer uses it.
inline at::Tensor initial(const nn::Weight& weight, c10::ScalarType dtype = at::kDouble) {
  std::vector<at::Tensor> parts;
  for (const auto& record : weight.records()) parts.push_back(initial(record, dtype));
  return at::cat(parts);
}

inline at::Tensor slice(const at::Tensor& whole, const layout::Box& box) {
  auto view = whole;
  for (std::size_t d = 0; d < box.size.size(); ++d)
    view = view.narrow(static_cast<std::int64_t>(d), box.offset[d], box.size[d]);
  return view;
}

using Whole = std::map<std::string, at::Tensor>;

/// Joins the ranks' boxes to whole tensors by record name.
inline void merge(Whole& whole, std::mutex& mutex, const std::vector<shard::StoredBox>& boxes) {
  const std::lock_guard lock(mutex);
  for (const auto& stored : boxes) {
    auto& tensor = whole[stored.record->name];
    if (!tensor.defined()) tensor = at::full(stored.record->shape, std::nan(""), stored.value.options());
    slice(tensor, stored.box).copy_(stored.value.view(stored.box.size));
  }
}

/// Gradients of the chain without engine or runner, summed over these batches, by record name.
inline Whole plain_gradients(const RigOptions& options, const std::vector<nn::Batch>& batches) {
  const auto chain = rig_chain(options);
  for (const auto& weight : all_weights(chain)) weight->bind(initial(*weight).set_requires_grad(weight->trainable()));
  for (const auto& batch : batches) {
    const auto loss = plain_loss(chain, batch);
    torch::autograd::backward({loss}, {at::ones_like(loss)});
  }
  Whole gradients;
  for (const auto& weight : all_weights(chain)) {
    if (!weight->trainable()) continue;
    std::int64_t begin = 0;
    for (const auto& record : weight->records()) {
      gradients[record.name] = weight->value().grad().narrow(0, begin, record.shape.front()).clone();
      begin += record.shape.front();
    }
  }
  return gradients;
}

/// max|a-b| <= tolerance * max|b| for every record, and the same records.
inline bool close(const Whole& a, const Whole& b, double tolerance) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, tensor] : b) {
    if (a.count(name) == 0) return false;
    const auto difference = (a.at(name) - tensor).abs().max().item<double>();
    if (!(difference <= tolerance * tensor.abs().max().item<double>())) return false;  // NaN is not close
  }
  return true;
}

}  // namespace capstan::testing
