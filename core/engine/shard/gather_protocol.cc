#include "shard/gather_protocol.h"

#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>

#include <algorithm>

namespace capstan::shard {

using strategy::BackwardPrefetch;

namespace {

// Forwards and backwards of a step that use the bucket, if it stays gathered from the first to the last. What a codec
// keeps is decoded for one run at a time, whatever stays gathered.
std::int64_t uses_in_step(const BucketPlan& bucket, const ShardPlan& plan, const EngineOptions& options) {
  if (!options.gathers_once || !bucket.shards_param || bucket.parameters.form == Form::packed) return 0;
  std::int64_t uses = 0;
  for (const auto run : bucket.runs) uses += options.accumulation * (plan.runs[run].trainable() ? 2 : 1);
  return uses;
}

}  // namespace

GatherProtocol::GatherProtocol(const ShardPlan& plan, const EngineOptions& options, Executor& executor)
    : plan_(plan),
      executor_(executor),
      schedule_(plan, options.policy),
      backwards_(options.backwards),
      gathered_(plan.buckets.size()) {
  if (backwards_.empty()) backwards_.resize(static_cast<std::size_t>(options.accumulation));
  for (const auto& bucket : plan.buckets) uses_.push_back(uses_in_step(bucket, plan, options));
}

void GatherProtocol::invalidate(std::size_t bucket) {
  // The step has ended, and so has an evaluation: sharded parameters are released.
  CAPSTAN_ASSERT(gathered_[bucket].used == 0 && holds_ == 0);
  if (!plan_.buckets[bucket].shards_param) gathered_[bucket].state = State::released;
}

void GatherProtocol::gather(std::size_t bucket, bool keep) {
  auto& gathered = gathered_[bucket];
  if (!plan_.buckets[bucket].parameters.gathers() || gathered.state != State::released) return;
  executor_.prefetch(bucket, keep);
  gathered.state = State::gathering;
}

void GatherProtocol::prefetch(std::optional<std::size_t> run, bool with_grad) {
  if (!run) return;
  for (const auto b : plan_.runs[*run].buckets) gather(b, schedule_.needs_regather(*run, with_grad));
}

void GatherProtocol::acquire(std::size_t run, bool with_grad) {
  for (const auto b : plan_.runs[run].buckets) {
    if (!plan_.buckets[b].parameters.gathers()) continue;
    auto& gathered = gathered_[b];
    gather(b, schedule_.needs_regather(run, with_grad));
    if (gathered.state == State::gathering) executor_.acquire(b);
    gathered.state = State::there;
    ++gathered.users;
  }
}

void GatherProtocol::release(std::size_t run) {
  for (const auto b : plan_.runs[run].buckets) {
    if (!plan_.buckets[b].parameters.gathers()) continue;
    CAPSTAN_ASSERT(gathered_[b].users > 0);
    --gathered_[b].users;
    free_unused(b);
  }
}

void GatherProtocol::free_unused(std::size_t bucket) {
  auto& [state, users, used] = gathered_[bucket];
  const bool stays = users > 0 || used > 0 || holds_ > 0 || !plan_.buckets[bucket].shards_param;
  if (stays || state != State::there) return;
  executor_.release(bucket);
  state = State::released;
}

std::shared_ptr<void> GatherProtocol::hold() {
  ++holds_;
  return {this, [this](void*) { let_go(); }};
}

// What a forward that has failed was using stays, as without holding.
void GatherProtocol::let_go() {
  --holds_;
  for (std::size_t b = 0; b < gathered_.size(); ++b) free_unused(b);
}

// Called before the use ends. After a step's last one nothing keeps the bucket gathered.
void GatherProtocol::count_use(std::size_t run) {
  for (const auto b : plan_.runs[run].buckets) {
    if (uses_[b] > 0) gathered_[b].used = (gathered_[b].used + 1) % uses_[b];
  }
}

Reduction GatherProtocol::reduction(std::size_t bucket, std::size_t backward) const {
  const auto& runs = plan_.buckets[bucket].runs;
  const auto is_of = [&](const Backward& one) {
    return one.completes &&
           std::any_of(runs.begin(), runs.end(), [&](std::size_t run) { return plan_.runs[run].stage == one.stage; });
  };
  const auto now = backwards_.begin() + static_cast<std::ptrdiff_t>(backward);
  const auto& gradients = plan_.buckets[bucket].gradients;
  Reduction how;
  how.micro_step = std::count_if(backwards_.begin(), now, is_of);
  how.first = how.micro_step == 0;
  how.last = std::none_of(now + 1, backwards_.end(), is_of);
  how.accumulates = gradients.accumulates;
  how.sums = gradients.sum_by != SumBy::nothing && (!gradients.accumulates || how.last);
  how.offloads = how.sums && gradients.on_host;
  return how;
}

// Is the run the last one of its stage that uses the bucket?
bool GatherProtocol::ends_in_stage(const BucketPlan& bucket, std::size_t run) const {
  const auto stage = plan_.runs[run].stage;
  return std::none_of(bucket.runs.begin(), bucket.runs.end(),
                      [&](std::size_t other) { return other > run && plan_.runs[other].stage == stage; });
}

bool GatherProtocol::reads_locally() const {
  for (std::size_t b = 0; b < plan_.buckets.size(); ++b) {
    if (plan_.buckets[b].parameters.gathers() && gathered_[b].state != State::there) return false;
  }
  return true;
}

bool GatherProtocol::stays_in_place() const {
  const auto& buckets = plan_.buckets;
  return reads_locally() && std::all_of(buckets.begin(), buckets.end(), [](const BucketPlan& bucket) {
           const bool is_sent = bucket.on_host || bucket.shards_param;
           return !is_sent && (!bucket.trainable || bucket.gradients.stay_in_place());
         });
}

void GatherProtocol::bind_tables(std::size_t run) {
  for (const auto b : plan_.runs[run].buckets) {
    const auto& bucket = plan_.buckets[b];
    if (bucket.gradients.table && !bucket.gradients.only_looked_up()) executor_.bind(b, run == bucket.runs.front());
  }
}

void GatherProtocol::before_forward(std::size_t run, bool with_grad) {
  acquire(run, with_grad);
  bind_tables(run);
  prefetch(schedule_.prefetch_in_forward(run), with_grad);
}

void GatherProtocol::after_forward(std::size_t run, bool with_grad) {
  if (with_grad) count_use(run);
  if (!schedule_.stays_gathered(run, with_grad)) release(run);
}

void GatherProtocol::before_backward(std::size_t run) {
  if (!schedule_.stays_gathered(run, true)) acquire(run, false);
  bind_tables(run);
  prefetch(schedule_.prefetch_in_backward(run, BackwardPrefetch::pre), false);
}

void GatherProtocol::after_backward(std::size_t run) {
  prefetch(schedule_.prefetch_in_backward(run, BackwardPrefetch::post), false);
  if (completes_gradients()) after_weight_gradients(run);
  count_use(run);
  release(run);
}

void GatherProtocol::after_weight_gradients(std::size_t run) {
  // A table is large and the first bucket; it comes after the others that are complete by now.
  for (auto b = plan_.buckets.size(); b-- > 0;) {
    if (plan_.buckets[b].gradients.reduced_after == run) executor_.reduce(b, reduction(b, backward_));
  }
}

void GatherProtocol::end_backward(std::size_t run) {
  for (const auto b : plan_.runs[run].buckets) {
    const auto& bucket = plan_.buckets[b];
    if (!ends_in_stage(bucket, run)) continue;
    if (bucket.gradients.table) {
      executor_.add_rows(b, reduction(b, backward_));
    } else if (!bucket.gradients.reduced_after) {
      executor_.reduce(b, reduction(b, backward_));
    }
  }
}

class GatherProtocol::Hooks : public strategy::UnitHooks {
 public:
  Hooks(GatherProtocol& protocol, std::size_t unit)
      : protocol_(protocol),
        unit_(unit),
        number_(protocol.plan_.run_of_unit[unit]),
        run_(protocol.plan_.runs[number_]) {}

  void before_forward() override {
    if (unit_ == run_.first) protocol_.before_forward(number_, c10::GradMode::is_enabled());
  }
  void after_forward() override {
    if (unit_ == run_.last) protocol_.after_forward(number_, c10::GradMode::is_enabled());
  }
  void before_backward() override {
    if (unit_ == run_.last) protocol_.before_backward(number_);
  }
  void after_backward() override {
    if (unit_ == run_.last_in_backward) protocol_.after_backward(number_);
  }
  void after_weight_gradients() override {
    if (unit_ == run_.last_in_backward) protocol_.after_weight_gradients(number_);
  }
  void end_backward() override {
    if (unit_ == run_.last) protocol_.end_backward(number_);
  }

 private:
  GatherProtocol& protocol_;
  std::size_t unit_;    ///< the unit around which these are
  std::size_t number_;  ///< number of its run
  const UnitRun& run_;  ///< the run itself
};

std::unique_ptr<strategy::UnitHooks> GatherProtocol::hooks(std::size_t unit) {
  return std::make_unique<Hooks>(*this, unit);
}

}  // namespace capstan::shard
