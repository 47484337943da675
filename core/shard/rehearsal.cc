#include "shard/rehearsal.h"

#include <ATen/ATen.h>

#include <utility>

namespace capstan::shard {

Rehearsal::Rehearsal(const Plan& plan, EngineOptions options, Add add)
    : plan_(plan),
      options_(std::move(options)),
      add_(std::move(add)),
      schedule_(plan_, options_.policy),
      buckets_(plan.buckets.size()),
      stays_(plan.runs.size(), false) {
  const auto meta = at::TensorOptions().device(at::kMeta).dtype(options_.precision.compute);
  for (const auto& bucket : plan_.buckets) {
    for (const auto& planned : bucket.weights)
      planned.weight->bind(at::empty(planned.cut.shape, meta).set_requires_grad(bucket.trainable));
  }
}

void Rehearsal::count(std::int64_t bytes) {
  gathered_ += bytes;
  add_(bytes);
}

std::int64_t Rehearsal::whole_bytes(std::size_t bucket) const {
  const auto& planned = plan_.buckets[bucket];
  return planned.cut_param ? planned.whole * static_cast<std::int64_t>(c10::elementSize(options_.precision.compute))
                           : 0;
}

// As shard::Bucket does: memory for the whole copies; what is sent is cast or uploaded first where it is not at hand;
// pieces of a smaller group stay for backward.
void Rehearsal::start(std::size_t b, bool keep) {
  const auto& planned = plan_.buckets[b];
  const auto size = static_cast<std::int64_t>(c10::elementSize(options_.precision.compute));
  count(whole_bytes(b));
  const auto from = send_from(planned, options_);
  const bool casts = from == SendFrom::master && master_dtype(planned, options_) != options_.precision.compute;
  if (casts || from == SendFrom::host) {
    count(planned.slab * size);
    count(-planned.slab * size);
  }
  auto& kept = buckets_[b].kept;
  if (kept > 0) {
    count(-std::exchange(kept, 0));
  } else if (keep && reshards(planned, options_.policy)) {
    kept = planned.slab * (planned.ranks / options_.policy.reshard_size) * size;
    count(kept);
  }
  buckets_[b].there = true;
}

void Rehearsal::acquire(std::size_t run, bool with_grad) {
  for (const auto b : plan_.runs[run].buckets) {
    if (!plan_.buckets[b].gathers()) continue;
    if (!buckets_[b].there) start(b, schedule_.returns(run, with_grad));
    ++buckets_[b].users;
  }
}

void Rehearsal::prefetch(std::optional<std::size_t> run, bool with_grad) {
  if (!run) return;
  for (const auto b : plan_.runs[*run].buckets) {
    if (plan_.buckets[b].gathers() && !buckets_[b].there) start(b, schedule_.returns(*run, with_grad));
  }
}

void Rehearsal::release(std::size_t run) {
  for (const auto b : plan_.runs[run].buckets) {
    const auto& planned = plan_.buckets[b];
    if (!planned.gathers() || --buckets_[b].users > 0 || !planned.cut_param) continue;
    count(-whole_bytes(b));
    buckets_[b].there = false;
  }
}

// As the Reducer does: an accumulator takes a gradient at once, or it takes the place of the step before's; a reduction
// holds it until the next bucket's begins.
void Rehearsal::collect(std::size_t b) {
  const auto& planned = plan_.buckets[b];
  held_.clear();
  if (!planned.trainable) return;
  const bool read_later = planned.reduces() && !options_.waits();
  for (const auto& weight : planned.weights) {
    at::Tensor leaf = weight.weight->value();
    auto& gradient = leaf.mutable_grad();
    if (read_later && gradient.defined()) held_.push_back(gradient);
    gradient.reset();
  }
}

// The engine's hooks, call by call.
class Rehearsal::Hooks : public strategy::UnitHooks {
 public:
  Hooks(Rehearsal& engine, std::size_t unit)
      : engine_(engine),
        run_(engine.plan_.run_of_unit[unit]),
        first_(engine.plan_.runs[run_].first == unit),
        last_(engine.plan_.runs[run_].last == unit) {}

  void before_forward() override {
    if (!first_) return;
    engine_.acquire(run_, true);
    engine_.prefetch(engine_.schedule_.beside_forward(run_), true);
  }
  void after_forward() override {
    if (!last_) return;
    engine_.stays_[run_] = engine_.schedule_.stays(run_, true);
    if (!engine_.stays_[run_]) engine_.release(run_);
  }
  void before_backward() override {
    if (!last_) return;
    if (!engine_.stays_[run_]) engine_.acquire(run_, false);
    engine_.stays_[run_] = false;
    engine_.prefetch(engine_.schedule_.before_backward(run_), false);
  }
  void after_backward() override {
    if (!first_) return;
    engine_.prefetch(engine_.schedule_.behind_backward(run_), false);
    for (const auto b : engine_.plan_.runs[run_].buckets) {
      if (!engine_.plan_.buckets[b].is_tied()) engine_.collect(b);
    }
    engine_.release(run_);
  }
  void end_backward() override {
    if (!last_) return;
    for (const auto b : engine_.plan_.runs[run_].buckets) {
      if (engine_.plan_.buckets[b].is_tied() && engine_.plan_.buckets[b].runs.back() == run_) engine_.collect(b);
    }
  }

 private:
  Rehearsal& engine_;
  std::size_t run_;
  bool first_;
  bool last_;
};

std::unique_ptr<strategy::UnitHooks> Rehearsal::hooks(std::size_t unit) { return std::make_unique<Hooks>(*this, unit); }

}  // namespace capstan::shard
