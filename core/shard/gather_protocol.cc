#include "shard/gather_protocol.h"

#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>

namespace capstan::shard {

GatherProtocol::GatherProtocol(const ShardPlan& plan, const EngineOptions& options, Executor& executor)
    : plan_(plan),
      executor_(executor),
      schedule_(plan, options.policy),
      accumulation_(options.accumulation),
      gathered_(plan.buckets.size()),
      stays_(plan.runs.size(), false) {}

void GatherProtocol::invalidate(std::size_t bucket) {
  // Sharded parameters are released by now.
  if (!plan_.buckets[bucket].shards_param) gathered_[bucket].state = State::released;
}

void GatherProtocol::gather(std::size_t bucket, bool keep) {
  auto& gathered = gathered_[bucket];
  if (!plan_.buckets[bucket].gathers() || gathered.state != State::released) return;
  executor_.prefetch(bucket, keep);
  gathered.state = State::gathering;
}

void GatherProtocol::prefetch(std::optional<std::size_t> run, bool with_grad) {
  if (!run) return;
  for (const auto b : plan_.runs[*run].buckets) gather(b, schedule_.needs_regather(*run, with_grad));
}

void GatherProtocol::acquire(std::size_t run, bool with_grad) {
  for (const auto b : plan_.runs[run].buckets) {
    if (!plan_.buckets[b].gathers()) continue;
    auto& gathered = gathered_[b];
    gather(b, schedule_.needs_regather(run, with_grad));
    if (gathered.state == State::gathering) executor_.acquire(b);
    gathered.state = State::there;
    ++gathered.users;
  }
}

void GatherProtocol::release(std::size_t run) {
  for (const auto b : plan_.runs[run].buckets) {
    if (!plan_.buckets[b].gathers()) continue;
    auto& gathered = gathered_[b];
    CAPSTAN_ASSERT(gathered.users > 0);
    if (--gathered.users > 0 || !plan_.buckets[b].shards_param) continue;
    executor_.release(b);
    gathered.state = State::released;
  }
}

Reduction GatherProtocol::reduction(std::size_t bucket, std::int64_t micro_step) const {
  const auto& gradients = plan_.buckets[bucket].gradients;
  Reduction how;
  how.micro_step = micro_step;
  how.first = micro_step == 0;
  how.last = micro_step + 1 == accumulation_;
  how.accumulates = gradients.accumulates;
  how.sums = plan_.buckets[bucket].reduces() && (!gradients.accumulates || how.last);
  how.offloads = how.sums && gradients.on_host;
  return how;
}

void GatherProtocol::reduce(std::size_t bucket) { executor_.reduce(bucket, reduction(bucket, micro_step_)); }

namespace {

// Gradients are added to memory of this rank that stays, and nothing else becomes of them. Autograd's own gradients are
// other memory in each micro-step.
bool accumulates_in_place(const BucketPlan& bucket, const Reduction& how) {
  const bool sums_others = how.last && (!bucket.gradients.partials.empty() || bucket.copies > 1);
  return how.accumulates && !how.sums && !sums_others && !bucket.gradients.autograd;
}

}  // namespace

bool GatherProtocol::is_local(std::int64_t micro_step) const {
  for (std::size_t b = 0; b < plan_.buckets.size(); ++b) {
    const auto& bucket = plan_.buckets[b];
    if (bucket.on_host || (bucket.gathers() && (bucket.shards_param || gathered_[b].state != State::there)))
      return false;
    if (bucket.trainable && !accumulates_in_place(bucket, reduction(b, micro_step))) return false;
  }
  return true;
}

void GatherProtocol::bind_tables(std::size_t run) {
  for (const auto b : plan_.runs[run].buckets) {
    const auto& bucket = plan_.buckets[b];
    if (bucket.is_table() && bucket.is_tied()) executor_.bind(b, run == bucket.runs.front());
  }
}

void GatherProtocol::before_forward(std::size_t run, bool with_grad) {
  acquire(run, with_grad);
  bind_tables(run);
  prefetch(schedule_.prefetch_in_forward(run), with_grad);
}

void GatherProtocol::after_forward(std::size_t run, bool with_grad) {
  stays_[run] = schedule_.stays_gathered(run, with_grad);
  if (!stays_[run]) release(run);
}

void GatherProtocol::before_backward(std::size_t run) {
  if (!stays_[run]) acquire(run, false);
  stays_[run] = false;
  bind_tables(run);
  prefetch(schedule_.prefetch_before_backward(run), false);
}

void GatherProtocol::after_backward(std::size_t run) {
  prefetch(schedule_.prefetch_after_backward(run), false);
  // A table, which is large and the first bucket, after the others that are complete by now.
  for (auto b = plan_.buckets.size(); b-- > 0;) {
    if (is_reduced_after(plan_.buckets[b], run)) reduce(b);
  }
  release(run);
}

// A table's rows come at the end; what is summed apart from them is there before: of a tied table when its other user's
// backward is done, of one that is only looked up what earlier micro-steps added up.
bool GatherProtocol::is_reduced_after(const BucketPlan& bucket, std::size_t run) const {
  if (bucket.is_only_looked_up()) return run + 1 == plan_.runs.size();
  if (bucket.is_tied()) return bucket.is_table() && run == bucket.runs.back();
  return run == bucket.runs.front();
}

// A tied weight's gradient is complete when the backward of all its users is: at the end.
void GatherProtocol::end_backward(std::size_t run) {
  for (const auto b : plan_.runs[run].buckets) {
    const auto& bucket = plan_.buckets[b];
    if (bucket.runs.back() != run) continue;
    if (bucket.is_table()) {
      executor_.add_rows(b, reduction(b, micro_step_));
    } else if (bucket.is_tied()) {
      reduce(b);
    }
  }
}

class GatherProtocol::Hooks : public strategy::UnitHooks {
 public:
  Hooks(GatherProtocol& protocol, std::size_t unit)
      : protocol_(protocol),
        run_(protocol.plan_.run_of_unit[unit]),
        first_(protocol.plan_.runs[run_].first == unit),
        last_(protocol.plan_.runs[run_].last == unit),
        last_in_backward_(protocol.plan_.runs[run_].last_in_backward == unit) {}

  void before_forward() override {
    if (first_) protocol_.before_forward(run_, c10::GradMode::is_enabled());
  }
  void after_forward() override {
    if (last_) protocol_.after_forward(run_, c10::GradMode::is_enabled());
  }
  void before_backward() override {
    if (last_) protocol_.before_backward(run_);
  }
  void after_backward() override {
    if (last_in_backward_) protocol_.after_backward(run_);
  }
  void end_backward() override {
    if (last_) protocol_.end_backward(run_);
  }

 private:
  GatherProtocol& protocol_;
  std::size_t run_;
  bool first_;
  bool last_;
  bool last_in_backward_;
};

std::unique_ptr<strategy::UnitHooks> GatherProtocol::hooks(std::size_t unit) {
  return std::make_unique<Hooks>(*this, unit);
}

}  // namespace capstan::shard
