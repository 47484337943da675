#include "assembly/dry_run.h"

#include <ATen/ATen.h>
#include <capstan/base/text.h>
#include <capstan/strategy/unit_runner.h>

#include "assembly/assemble.h"
#include "assembly/wrap.h"
#include "comm/planned_group.h"
#include "meta/memory_counter.h"
#include "shard/gather_protocol.h"
#include "shard/meta_executor.h"

namespace capstan::assembly {
namespace {

// Notes which unit is at work.
class Place : public strategy::UnitHooks {
 public:
  Place(std::string& at, const std::string& unit)
      : at_(at), forward_("forward of " + unit), backward_("backward of " + unit) {}
  void before_forward() override { at_ = forward_; }
  void after_forward() override {}
  void before_backward() override { at_ = backward_; }
  void after_backward() override {}
  void end_backward() override {}

 private:
  std::string& at_;
  std::string forward_, backward_;
};

// Counts gathers too.
class WorkExecutor : public shard::MetaExecutor {
 public:
  WorkExecutor(const shard::ShardPlan& plan, const DryRunOf& what, Add add)
      : MetaExecutor(plan, std::move(add)), what_(what) {}
  void count_into(Transfers& gathers) { gathers_ = &gathers; }
  void prefetch(std::size_t bucket, bool keep) override {
    if (gathers_) add_gather(plan().buckets[bucket], what_.topology, *gathers_);
    MetaExecutor::prefetch(bucket, keep);
  }

 private:
  const DryRunOf& what_;
  Transfers* gathers_ = nullptr;
};

nn::Batch longest_batch(const DryRunOf& what) {
  const auto rows = what.topology.batch.micro_batch, length = what.samples.length;
  const auto ids = at::TensorOptions().device(at::kMeta).dtype(at::kLong);
  nn::Batch batch;
  batch.tokens = at::empty({rows, length}, ids);
  batch.labels = at::empty({rows, length}, ids);
  batch.positions = at::empty({rows, length}, ids);
  batch.real = at::empty({rows, length}, ids.dtype(at::kBool));
  batch.sample_ids = at::empty({rows}, ids);
  batch.training = true;
  if (what.plugins.data_options->packing) {
    // One sample a row is as much memory as many short ones.
    nn::Documents documents;
    documents.packed = at::empty({rows * length}, ids);
    documents.alone = at::empty({rows * length}, ids);
    documents.sample_ids = batch.sample_ids;
    documents.count = rows;
    documents.longest = length;
    documents.bounds = at::empty({rows + 1}, ids.dtype(at::kInt));
    batch.documents = documents;
  }
  return batch;
}

void backward(strategy::UnitRunner& runner, const nn::Hidden& hidden) {
  auto objective = hidden.states;
  for (const auto& auxiliary : hidden.sums) objective = objective + auxiliary;
  runner.backward(objective, at::empty({}, objective.options()));
}

// Runs a micro-step and notes what it computes and what its layers' groups are asked for.
template <class MicroStep>
void counting(MicroStepWork& work, const Topology& topology, const MicroStep& micro_step) {
  Transfers waited;
  const comm::PlannedCalls listening([&](const comm::PlannedCall& call) {
    const auto nodes = nodes_of(call.ranks, topology.ranks_per_node);
    ++waited[{call.operation, static_cast<int>(call.ranks.size()), nodes, call.bytes}];
  });
  const meta::WorkCounter compute;
  micro_step();
  work.compute = compute.work();
  work.waited = std::move(waited);
}

}  // namespace

MicroStepMemory dry_run(const DryRunOf& what) {
  const auto& [config, plugins, topology, samples, options] = what;
  const auto strategies = fresh_strategies(plugins.strategies, topology);
  const auto model = assemble(config, strategies, topology, build_model(plugins), c10::Device(c10::DeviceType::Meta));
  const auto list = pointers(model->units);
  const auto plan = shard::make_plan(list, options);
  meta::MemoryCounter* counted = nullptr;
  std::int64_t gathered = 0;
  WorkExecutor executor(plan, what, [&](const shard::Buffer&, std::int64_t bytes) {
    gathered += bytes;
    counted->add(bytes);
  });
  shard::GatherProtocol protocol(plan, options, executor);
  std::string at;
  strategy::UnitRunner runner(list, plugins.model.name);
  for (std::size_t i = 0; i < list.size(); ++i) {
    runner.add_hooks(i, std::make_unique<Place>(at, list[i]->name()));
    runner.add_hooks(i, protocol.hooks(i));
    wrap_unit(strategies, i, runner);
  }
  meta::MemoryCounter memory;  // the weights' own shapes are made
  counted = &memory;
  MicroStepMemory result;
  result.computed.recomputes = runner.recomputes();
  memory.set_on_peak([&] { result.gathered = gathered, result.peak = at; });
  // What is held from one micro-step to the next is there in the second.
  const int micro_steps = topology.batch.accumulation > 1 ? 2 : 1;
  for (int i = 0; i < micro_steps; ++i) {
    executor.count_into(i == 0 ? result.computed.gathers : result.computed.later_gathers);
    counting(result.computed, topology, [&] {
      const auto hidden = runner.forward(longest_batch(what));
      if (i == 0) result.kept = memory.now() - gathered;
      backward(runner, hidden);
    });
  }
  result.work = memory.peak() - result.gathered;
  return result;
}

}  // namespace capstan::assembly
