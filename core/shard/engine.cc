#include "shard/engine.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/ops/norm.h>

#include <algorithm>
#include <map>
#include <utility>

namespace capstan::shard {
namespace {

// A weight with the units that use it.
struct Use {
  nn::WeightPtr weight;
  std::vector<std::size_t> units;
};

std::vector<Use> uses_of(const std::vector<nn::Unit*>& units) {
  std::vector<Use> uses;
  std::map<const nn::Weight*, std::size_t> known;
  for (std::size_t i = 0; i < units.size(); ++i) {
    for (const auto& weight : units[i]->weights()) {
      const auto [found, is_new] = known.emplace(weight.get(), uses.size());
      if (is_new) uses.push_back({weight, {}});
      uses[found->second].units.push_back(i);
    }
  }
  return uses;
}

}  // namespace

// Gathers before a unit computes and releases behind it. The last unit of a forward with gradient is the first of
// its backward and stays.
class Engine::Hooks : public strategy::UnitHooks {
 public:
  Hooks(Engine& engine, std::size_t index, bool is_last) : engine_(engine), index_(index), is_last_(is_last) {}

  void before_forward() override { gather(); }
  void after_forward() override {
    stays_ = c10::GradMode::is_enabled() && (is_last_ || !engine_.options_.policy.reshard_after_forward);
    if (!stays_) release();
  }
  void before_backward() override {
    if (!stays_) gather();
    stays_ = false;
  }
  void after_backward() override {
    for (auto* bucket : engine_.reduced_by_unit_[index_]) engine_.collect(*bucket);
    release();
  }
  void end_backward() override {
    for (auto* bucket : engine_.ended_by_unit_[index_]) engine_.collect(*bucket);
  }

 private:
  void gather() {
    for (auto* bucket : engine_.buckets_of_unit_[index_]) bucket->gather(engine_.scratch_);
  }
  void release() {
    for (auto* bucket : engine_.buckets_of_unit_[index_]) bucket->release();
  }

  Engine& engine_;
  std::size_t index_;
  bool is_last_;
  bool stays_ = false;
};

Engine::Engine(EngineOptions options, const std::vector<nn::Unit*>& units, const GroupOf& group_of)
    : options_(std::move(options)) {
  // Other combinations of roles (ZeRO's stages 1 and 2) are not there yet; strategies can't ask for them.
  const auto& policy = options_.policy;
  CAPSTAN_ASSERT(policy.shard_param == policy.shard_grad && policy.shard_grad == policy.shard_optim);
  make_buckets(units, group_of);
  std::int64_t gather_room = 0;
  std::int64_t reduce_room = 0;
  std::int64_t slab = 0;
  for (auto& bucket : buckets_) {
    const bool waits = accumulates() && (options_.reduce == ReduceWhen::step || bucket->group().size() == 1);
    bucket->allocate(waits);
    gather_room = std::max(gather_room, bucket->gather_room());
    reduce_room = std::max(reduce_room, bucket->reduce_room());
    if (bucket->reduce_room() > 0) slab = std::max(slab, bucket->slab());
  }
  const auto on_device = at::TensorOptions().device(options_.precision.device);
  scratch_.gather = at::empty({gather_room}, on_device.dtype(options_.precision.compute));
  scratch_.reduce = at::empty({reduce_room}, on_device.dtype(options_.precision.reduce));
  scratch_.shard = at::empty({slab}, on_device.dtype(options_.precision.reduce));
}

Engine::~Engine() = default;

// One bucket for each unit's own weights of one kind (trained or frozen, group), and one for each tied weight.
void Engine::make_buckets(const std::vector<nn::Unit*>& units, const GroupOf& group_of) {
  using Key = std::tuple<std::size_t, bool, std::vector<layout::Axis>>;
  std::map<Key, std::vector<nn::WeightPtr>> own;
  std::vector<Use> tied;
  for (auto& use : uses_of(units)) {
    for (auto& record : use.weight->records()) set_roles(record, *use.weight);
    if (use.units.size() > 1) {
      tied.push_back(use);
    } else {
      own[{use.units.front(), !use.weight->trainable(), use.weight->records().front().data_axes}].push_back(use.weight);
    }
  }
  buckets_of_unit_.resize(units.size());
  reduced_by_unit_.resize(units.size());
  ended_by_unit_.resize(units.size());
  const auto& owner = options_.policy.owner;
  const auto make = [&](const std::string& name, std::vector<nn::WeightPtr> weights) {
    const auto group = group_of(weights.front()->records().front().data_axes);
    buckets_.push_back(std::make_unique<Bucket>(name, std::move(weights), group, options_.policy.shard_param,
                                                options_.mesh, options_.rank, options_.precision,
                                                owner.empty() ? "no_shard" : owner));
    return buckets_.back().get();
  };
  for (const auto& use : tied) {
    auto* bucket = make(use.weight->name(), {use.weight});
    for (const auto unit : use.units) buckets_of_unit_[unit].push_back(bucket);
    ended_by_unit_[use.units.back()].push_back(bucket);
  }
  for (auto& [key, weights] : own) {
    const auto unit = std::get<0>(key);
    auto* bucket = make(units[unit]->name(), weights);
    buckets_of_unit_[unit].push_back(bucket);
    reduced_by_unit_[unit].push_back(bucket);
  }
}

void Engine::set_roles(layout::Param& record, const nn::Weight& weight) const {
  const auto& precision = options_.precision;
  const auto sharded = record.compute.with({0, record.data_axes});
  const auto& policy = options_.policy;
  const auto master = weight.trainable() ? precision.master : precision.compute;
  record.param = {policy.shard_param ? sharded : record.compute, master, precision.device};
  record.grad = {policy.shard_grad ? sharded : record.compute, precision.reduce, precision.device};
  record.optim = {policy.shard_optim ? sharded : record.compute, precision.master, precision.device};
}

void Engine::fill(layout::Source& source, const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const auto all = parameters();
  std::int64_t done = 0;
  for (auto& bucket : buckets_) {
    bucket->fill(source, options_.mesh, options_.rank);
    for (const auto& held : bucket->held()) done += held.weight->numel();
    if (progress) progress(done, all);
  }
}

std::unique_ptr<strategy::UnitHooks> Engine::hooks(std::size_t index) {
  return std::make_unique<Hooks>(*this, index, index + 1 == buckets_of_unit_.size());
}

void Engine::collect(Bucket& bucket) {
  Bucket::Collect how;
  how.first = micro_step_ == 0;
  how.accumulate = accumulates() && options_.reduce == ReduceWhen::step;
  how.reduce = !how.accumulate || micro_step_ + 1 == options_.accumulation;
  bucket.collect(how, scratch_);
}

at::Tensor Engine::squared_grad_norms() {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parts;
  std::vector<std::int64_t> weight_of_part;
  std::int64_t weights = 0;
  for (auto& bucket : buckets_) {
    if (!bucket->trainable()) continue;
    for (const auto& held : bucket->held()) {
      for (const auto& piece : bucket->my_pieces(held)) {
        const auto& record = held.weight->records()[piece.record];
        const bool counts = record.compute.with({0, record.data_axes}).counts(options_.mesh, options_.rank);
        if (piece.numel == 0 || !counts) continue;
        parts.push_back(bucket->counted_grad(held, piece));
        weight_of_part.push_back(weights);
      }
      ++weights;
    }
  }
  const auto on_device = at::TensorOptions().dtype(at::kDouble).device(options_.precision.device);
  auto norms = at::zeros({weights}, on_device);
  if (parts.empty()) return norms;
  auto each = at::zeros({static_cast<std::int64_t>(parts.size())}, on_device);
  ops::squared_norms(each, parts);
  // The same at every step; made once, since a copy from the host waits for the device.
  if (!part_weights_.defined()) {
    part_weights_ = at::tensor(weight_of_part, at::TensorOptions().dtype(at::kLong)).to(options_.precision.device);
  }
  return norms.index_add_(0, part_weights_, each);
}

std::vector<std::string> Engine::trainable_names() const {
  std::vector<std::string> names;
  for (const auto& bucket : buckets_) {
    if (!bucket->trainable()) continue;
    for (const auto& held : bucket->held()) names.push_back(held.weight->name());
  }
  return names;
}

void Engine::update(strategy::OptimizerRule& rule, const strategy::Update& update, const std::function<void()>& after) {
  const at::NoGradGuard no_grad;
  const auto states = rule.states();
  std::vector<strategy::Slice> slices;
  for (auto& bucket : buckets_) {
    if (!bucket->trainable()) continue;
    for (const auto& held : bucket->held()) {
      strategy::Slice slice{held.weight.get(), bucket->master_slice(held), bucket->grad_slice(held), {}};
      if (state_.size() <= slices.size()) {
        state_.emplace_back();
        for (std::size_t i = 0; i < states; ++i) state_.back().push_back(at::zeros_like(slice.master));
      }
      slice.state = state_[slices.size()];
      slices.push_back(std::move(slice));
    }
  }
  rule.apply(slices, update);
  if (after) after();
  for (auto& bucket : buckets_) bucket->publish();
}

namespace {

// Boxes of one role's tensors by record; `tensor` gives the record's part.
template <class Tensor>
std::vector<StoredBox> boxes_of(const std::vector<std::unique_ptr<Bucket>>& buckets, const EngineOptions& options,
                                bool only_trainable, layout::Role role, const Tensor& tensor) {
  std::vector<StoredBox> boxes;
  for (const auto& bucket : buckets) {
    if (only_trainable && !bucket->trainable()) continue;
    for (const auto& held : bucket->held()) {
      for (std::size_t i = 0; i < held.weight->records().size(); ++i) {
        const auto& record = held.weight->records()[i];
        const auto& layout = record.role(role).layout;
        auto box = layout.box(record.shape, options.mesh, options.rank);
        if (box.empty()) continue;
        const auto begin =
            bucket->sharded() ? bucket->my_pieces(held)[i].in_chunk : held.cut.pieces.front()[i].in_whole;
        boxes.push_back({&record, box, tensor(*bucket, held).narrow(0, begin, box.numel()),
                         layout.counts(options.mesh, options.rank)});
      }
    }
  }
  return boxes;
}

}  // namespace

std::vector<StoredBox> Engine::stored_boxes() const {
  return boxes_of(buckets_, options_, false, layout::Role::param,
                  [](const Bucket& bucket, const Held& held) { return bucket.master_slice(held); });
}

std::vector<StoredBox> Engine::gradient_boxes() {
  return boxes_of(buckets_, options_, true, layout::Role::grad,
                  [](const Bucket& bucket, const Held& held) { return bucket.grad_slice(held); });
}

std::vector<layout::Footprint> Engine::footprint(std::size_t states) const {
  const auto size = [](c10::ScalarType type) { return static_cast<std::int64_t>(c10::elementSize(type)); };
  const auto& precision = options_.precision;
  std::int64_t params = 0;
  std::int64_t grads = 0;
  std::int64_t optim = 0;
  for (const auto& bucket : buckets_) {
    std::int64_t whole = 0;
    std::int64_t updated = 0;  // autograd's own gradients have no padding, nor does what goes with them
    for (const auto& held : bucket->held()) {
      whole += held.cut.whole_room;
      updated += held.grad_is_raw ? held.cut.numel : held.cut.whole_room;
    }
    const auto kept = bucket->sharded() ? bucket->slab() : whole;
    if (bucket->sharded()) updated = bucket->slab();
    const bool copy_apart = precision.compute != precision.master && bucket->trainable();
    params += kept * size(bucket->trainable() ? precision.master : precision.compute);
    if (!bucket->sharded() && copy_apart) params += whole * size(precision.compute);
    if (!bucket->trainable()) continue;
    const bool waits = accumulates() && (options_.reduce == ReduceWhen::step || bucket->group().size() == 1);
    grads += updated * size(precision.reduce) + (bucket->sharded() && waits ? whole * size(precision.reduce) : 0);
    optim += updated * size(precision.master) * static_cast<std::int64_t>(states);
  }
  const auto device = c10::DeviceTypeName(precision.device.type(), true);
  const auto scratch = scratch_.gather.nbytes() + scratch_.reduce.nbytes() + scratch_.shard.nbytes();
  return {{"parameters", params, device, "always"},
          {"gradients", grads, device, "always"},
          {"optimizer state", optim, device, "always"},
          {"collective buffers", static_cast<std::int64_t>(scratch), device, "always"},
          {"gathered unit", gathered_elements() * size(precision.compute), device, "forward"}};
}

// One unit's buckets at a time, its tied weights among them; all buckets where they stay until backward.
std::int64_t Engine::gathered_elements() const {
  const auto room = [](const Bucket& bucket) {
    std::int64_t whole = 0;
    for (const auto& held : bucket.held()) whole += bucket.sharded() ? held.cut.whole_room : 0;
    return whole;
  };
  std::int64_t largest = 0;
  for (const auto& buckets : buckets_of_unit_) {
    std::int64_t unit = 0;
    for (const auto* bucket : buckets) unit += room(*bucket);
    largest = std::max(largest, unit);
  }
  if (options_.policy.reshard_after_forward) return largest;
  std::int64_t all = 0;
  for (const auto& bucket : buckets_) all += room(*bucket);
  return all;
}

std::int64_t Engine::parameters() const {
  std::int64_t sum = 0;
  for (const auto& bucket : buckets_) {
    for (const auto& held : bucket->held()) sum += held.weight->numel();
  }
  return sum;
}

std::int64_t Engine::trainable_parameters() const {
  std::int64_t sum = 0;
  for (const auto& bucket : buckets_) {
    if (!bucket->trainable()) continue;
    for (const auto& held : bucket->held()) sum += held.weight->numel();
  }
  return sum;
}

}  // namespace capstan::shard
