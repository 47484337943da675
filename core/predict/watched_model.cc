#include "predict/watched_model.h"

#include <utility>

#include "frozen/door.h"

namespace capstan::predict {
namespace {

// Notes which unit is at work.
class Place : public strategy::UnitHooks {
 public:
  Place(std::string& at, const std::string& unit)
      : at_(at), forward_("forward of " + unit), backward_("backward of " + unit) {}
  void before_forward() override { at_ = forward_; }
  void before_backward() override { at_ = backward_; }

 private:
  std::string& at_;
  std::string forward_, backward_;
};

template <class Runner>
void follow(Runner& runner, GatheredUnits& gathered, const std::vector<nn::Unit*>& units, std::string& at,
            const std::string& of = {}) {
  for (std::size_t i = 0; i < units.size(); ++i) {
    runner.add_hooks(i, std::make_unique<Place>(at, of + units[i]->name()));
    runner.add_hooks(i, gathered.protocol().hooks(i));
  }
}

}  // namespace

// Counts gathers too, where it is asked to.
class GatheredUnits::Executor : public MetaExecutor {
 public:
  Executor(const shard::ShardPlan& plan, const DryRunOf& what, Add add, plan::Transfers* const& gathers)
      : MetaExecutor(plan, std::move(add)), what_(what), gathers_(gathers) {}
  void prefetch(std::size_t bucket, bool keep) override {
    if (gathers_) add_gather(plan().buckets[bucket], what_.topology, *gathers_);
    MetaExecutor::prefetch(bucket, keep);
  }

 private:
  const DryRunOf& what_;
  plan::Transfers* const& gathers_;
};

GatheredUnits::GatheredUnits(const std::vector<nn::Unit*>& units, const DryRunOf& what,
                             const shard::EngineOptions& options, std::function<void(std::int64_t)> gather,
                             plan::Transfers* const& gathers)
    : plan_(shard::make_plan(units, options)),
      executor_(std::make_unique<Executor>(
          plan_, what, [gather = std::move(gather)](const shard::Buffer&, std::int64_t bytes) { gather(bytes); },
          gathers)),
      protocol_(std::make_unique<shard::GatherProtocol>(plan_, options, *executor_)) {}

GatheredUnits::~GatheredUnits() = default;

void GatheredUnits::gather_again() {
  for (std::size_t b = 0; b < plan_.buckets.size(); ++b) protocol_->invalidate(b);
}

// A model of the objective's plan.
struct WatchedModel::Other {
  Other(job::FrozenModel made, const DryRunOf& what, std::function<void(std::int64_t)> gather,
        plan::Transfers* const& gathers)
      : frozen(std::move(made)),
        units(job::pointers(frozen.model->units), what, without_optimizer(what.options), std::move(gather), gathers),
        runner(job::pointers(frozen.model->units), frozen.plugin.model.name) {}
  static shard::EngineOptions without_optimizer(shard::EngineOptions options) {
    options.optimizer = nullptr;
    return options;
  }
  job::FrozenModel frozen;
  GatheredUnits units;
  step::FrozenRunner runner;
};

WatchedModel::WatchedModel(const DryRunOf& what)
    : strategies_(job::fresh_strategies(what.plugins.strategies, what.topology)),
      model_(job::assemble(what.config, what.plugins, strategies_, what.topology, job::build_model(*what.plugins.model),
                           c10::Device(c10::DeviceType::Meta))) {
  const auto own = model_->own_units();
  units_ = std::make_unique<GatheredUnits>(
      own, what, what.options, [this](std::int64_t bytes) { gather(bytes); }, gathers_);
  runner_ = std::make_unique<step::UnitRunner>(own, model_->rank_stages, what.plugins.model->name);
  follow(*runner_, *units_, own, at_);
  for (std::size_t i = 0; i < own.size(); ++i) wrap_unit(strategies_, i, *runner_);
  compare_with(what);
}

WatchedModel::~WatchedModel() = default;

void WatchedModel::compare_with(const DryRunOf& what) {
  std::vector<step::FrozenRunner*> runners;
  for (const auto& frozen : what.frozen) {
    auto made = frozen::door().assemble(frozen.plugin, what.plugins.strategies, what.topology, model_->groups);
    others_.push_back(std::make_unique<Other>(
        std::move(made), what, [this](std::int64_t bytes) { gather(bytes); }, gathers_));
    auto& other = *others_.back();
    follow(other.runner, other.units, job::pointers(other.frozen.model->units), at_, other.frozen.plugin.name + "'s ");
    runners.push_back(&other.runner);
  }
  passes_.emplace(
      what.plugins.minimised, [this](const nn::Batch& batch) { return runner_->forward(batch); }, std::move(runners));
}

AtPeak WatchedModel::peak_of(const std::function<void()>& work) {
  const MemoryCounter counter;  // the weights' own shapes are made
  auto& memory = counter.count();
  memory_ = &memory;
  // Even if the work throws, nothing is added to a counter that is gone.
  const std::shared_ptr<void> counting(this, [this](void*) { memory_ = nullptr; });
  memory.add(gathered_);
  AtPeak result;
  memory.on_peak = [&] { result.gathered = gathered_, result.peak = at_; };
  work();
  result.work = memory.peak - result.gathered;
  result.largest = memory.largest;
  return result;
}

void WatchedModel::gather(std::int64_t bytes) {
  gathered_ += bytes;
  if (memory_) memory_->add(bytes);
}

}  // namespace capstan::predict
