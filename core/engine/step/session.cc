#include "step/session.h"

#include <capstan/base/log.h>
#include <capstan/base/text.h>
#include "plugin/guard.h"

#include <algorithm>
#include <iterator>

#include "comm/agree.h"
#include "frozen/door.h"
#include "job/assemble.h"
#include "job/override_points.h"
#include "job/resume.h"
#include "job/start_values.h"
#include "resume/door.h"
#include "step/wrap_unit.h"

namespace capstan::step {
namespace {

// Parameters from a checkpoint, for one rank: its own copy where it has one. Frozen records that were not saved come
// from `base`.
class ResumedSource : public layout::Source, public nn::CodedSource {
 public:
  // Reader and base must outlive it.
  ResumedSource(checkpoint::Reader& reader, const job::Job& job, layout::Source& base)
      : reader_(reader), job_(job), base_(base) {}
  bool has(const layout::Param& param) const override {
    return reader_.has(job::saved_name("model", param.name, 0)) || base_.has(param);
  }
  void fill(const layout::Param& param, const layout::Box& box, const at::Tensor& out) override {
    const auto& mesh = job_.topology.mesh;
    const int copy = param.trainable ? mesh.position(job_.topology.rank, param.local_axes) : 0;
    for (const int from : {copy, 0}) {
      const auto tensor = job::saved_name("model", param.name, from);
      if (reader_.has(tensor)) return reader_.read(tensor, box, out);
    }
    CAPSTAN_ASSERT(!param.trainable);
    base_.fill(param, box, out);
  }
  // No checkpoint has what a codec keeps.
  std::vector<nn::CodedMatrix> coded(const layout::Param& param, const layout::Box& box) const override {
    return nn::coded_in(base_, param, box);
  }

 private:
  checkpoint::Reader& reader_;
  const job::Job& job_;
  layout::Source& base_;
};

// Under sync_module_states rank 0's values win: a rank that had others is named, since something is wrong there.
void fill(Session& session, const std::function<void(std::int64_t, std::int64_t)>& progress,
          checkpoint::Reader* resumed) {
  const auto& job = *session.job;
  if (resumed) {
    Diagnostics faults;
    resume::door().check(job, *resumed, session.units, faults);
    faults.throw_if_any();
  }
  const auto source = job::start_values(job, resumed);
  if (resumed) {
    ResumedSource values(*resumed, job, *source);
    session.engine->resume(values, progress);
    return;
  }
  const auto differing = session.engine->fill(*source, progress);
  if (!job.topology.policy.sync_module_states) return;
  const auto all = session.communicator->exchange(join(differing));
  for (std::size_t rank = 0; rank < all.size() && session.communicator->world().rank == 0; ++rank) {
    if (!all[rank].empty())
      log::warning(cat("rank ", rank, " had other values than rank 0 and took rank 0's: ", all[rank]));
  }
}

void make_groups(comm::Communicator& communicator, Session& session) {
  session.world_host = comm::group_of_all(communicator, "world, host");
  session.world_device = comm::group_of_all(communicator, "world", session.device);
  session.groups().connect(communicator);
}

// Gradients that stay local on an axis have a norm, and a number of target tokens, for each position on it.
void make_local_groups(comm::Communicator& communicator, Session& session) {
  session.norm_group = session.world_device;
  if (session.local_axes().empty()) return;
  const auto is_summed = [&](layout::Axis axis) { return !layout::has_axis(session.local_axes(), axis); };
  std::vector<layout::Axis> all;
  std::vector<layout::Axis> data;
  std::copy_if(layout::all_axes.begin(), layout::all_axes.end(), std::back_inserter(all), is_summed);
  std::copy_if(layout::sample_axes.begin(), layout::sample_axes.end(), std::back_inserter(data), is_summed);
  session.norm_group = session.groups()(all);
  const auto members = session.job->topology.mesh.ranks_along(data, session.job->topology.rank);
  session.divisor_group =
      communicator.group(cat("summed data ranks of ", members.front()), members, c10::Device(c10::DeviceType::CPU));
}

Channels connect_stages(const Session& session) {
  const auto& topology = session.job->topology;
  const auto ranks = topology.mesh.ranks_along({layout::Axis::pp}, topology.rank);
  return channels_of(session.job->model->stages, topology.position(), ranks,
                     [&](const Channel& channel, const std::vector<int>& ends) {
                       const auto what = channel.has_states ? "states" : "gradients";
                       const auto name = cat("stages' ", what, " of ", ends[0], " for ", ends[1]);
                       return session.communicator->group(name, ends, session.device);
                     });
}

// Makes the strategies' step hooks, and gives the engine's options the functions for the sums of gradients that they
// claim. Throws Error where a strategy claims one, or what evaluation sees, and brings nothing for it.
void install_step_hooks(Session& session, shard::EngineOptions& options) {
  for (const auto& made : session.job->plugins.strategies) {
    std::unique_ptr<strategy::StepHooks> hooks;
    plugin::guard(made.name, "step", [&] { hooks = made.object->step(); });
    for (auto& [axis, sum] : options.reduce_overrides) {
      const auto point = strategy::gradient_reduction_point(axis);
      if (!job::claims(*made.object, point)) continue;
      if (!hooks) job::claims_in_vain(made, point, "step");
      sum = [name = made.name, axis = axis, raw = hooks.get(), store = session.state.get()](strategy::Bucket& bucket) {
        bucket.state = &store->of(name, bucket.name);
        plugin::guard(name, cat("reduce of ", bucket.name, " on ", axis), [&] { raw->reduce(bucket, axis); });
      };
    }
    const bool evaluation_weights = job::claims(*made.object, strategy::evaluation_weights_point);
    if (evaluation_weights && !hooks) job::claims_in_vain(made, strategy::evaluation_weights_point, "step");
    if (hooks) session.steps.push_back({made.name, std::move(hooks), evaluation_weights});
  }
}

// Nothing of a checkpoint is read: a run that resumes compares with what it began with.
FrozenSession make_frozen(const Session& session, const job::FrozenModel& frozen) {
  const auto& job = *session.job;
  const auto units = frozen.model->own_units();
  FrozenSession made{frozen.plugin.name, {}, std::make_unique<FrozenRunner>(units, frozen.plugin.model.name)};
  made.engine = std::make_unique<shard::Engine>(
      job::engine_options(job.config, job.topology, job.samples, *frozen.model, session.device), units,
      [groups = frozen.model->groups](const auto& axes, std::int64_t part) { return (*groups)(axes, part); });
  made.engine->fill(*frozen::door().values(job, frozen));
  for (std::size_t i = 0; i < units.size(); ++i) made.runner->add_hooks(i, made.engine->hooks(i));
  return made;
}

// The first rank's prediction decides, so that all ranks gather at the same times.
bool agree_to_hold(const job::Job& job, comm::Communicator& communicator) {
  const bool holds = !communicator.exchange(job.prediction.holds ? "holds" : "").front().empty();
  if (holds || job.topology.policy.shard_param)
    log::debug(holds ? "an evaluation gathers parameters once" : "each forward of an evaluation gathers parameters");
  return holds;
}

}  // namespace

std::vector<FrozenRunner*> Session::frozen_runners() const {
  std::vector<FrozenRunner*> runners;
  for (const auto& one : frozen) runners.push_back(one.runner.get());
  return runners;
}

std::vector<layout::Footprint> Session::held() const {
  auto all = engine->held();
  for (auto& part : state->footprints()) all.push_back(std::move(part));
  for (const auto& one : frozen) {
    for (auto& part : job::named(one.name, one.engine->held())) all.push_back(std::move(part));
  }
  return all;
}

Session materialise(const job::Job& job, comm::Communicator& communicator,
                    const std::function<void(std::int64_t, std::int64_t)>& progress, checkpoint::Reader* resumed) {
  Session session;
  session.job = &job;
  session.communicator = &communicator;
  session.device = job::device_of(job.config);
  session.units = job::pointers(job.model->units);
  if (job.config.run->deterministic) at::globalContext().setDeterministicAlgorithms(true, false);
  make_groups(communicator, session);
  make_local_groups(communicator, session);
  job.config.request.ended("groups");
  session.state = std::make_unique<StateStore>(session.device);
  auto options = job::engine_options(job.config, job.topology, job.samples, *job.model, session.device);
  options.holds = agree_to_hold(job, communicator);
  install_step_hooks(session, options);
  if (options.stages) {
    options.holders = [groups = job.model->groups](const auto& axes, const auto& layout) {
      return groups->holders(axes, layout);
    };
  }
  const auto own = job.model->own_units();
  session.engine = std::make_unique<shard::Engine>(
      std::move(options), own,
      [groups = job.model->groups](const auto& axes, std::int64_t part) { return (*groups)(axes, part); });
  fill(session, progress, resumed);
  for (const auto& frozen : job.frozen) session.frozen.push_back(make_frozen(session, frozen));
  session.runner = std::make_unique<UnitRunner>(own, job.model->rank_stages, job.plugins.model->name);
  for (std::size_t i = 0; i < own.size(); ++i) {
    session.runner->add_hooks(i, session.engine->hooks(i));
    wrap_unit(job.plugins.strategies, i, *session.runner);
  }
  session.interpreter = std::make_unique<Interpreter>(*session.runner, connect_stages(session));
  job.config.request.ended("parameters");
  return session;
}

}  // namespace capstan::step
