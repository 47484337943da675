#include "assembly/dry_run.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/text.h>
#include "strategy/interpreter.h"
#include "strategy/unit_runner.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "assembly/assemble.h"
#include "assembly/memory_counter.h"
#include "comm/planned_group.h"
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
  void before_backward() override { at_ = backward_; }

 private:
  std::string& at_;
  std::string forward_, backward_;
};

// Counts gathers too, where it is asked to.
class WorkExecutor : public shard::MetaExecutor {
 public:
  WorkExecutor(const shard::ShardPlan& plan, const DryRunOf& what, Add add)
      : MetaExecutor(plan, std::move(add)), what_(what) {}
  void count_into(Transfers* gathers) { gathers_ = gathers; }
  void prefetch(std::size_t bucket, bool keep) override {
    if (gathers_) add_gather(plan().buckets[bucket], what_.topology, *gathers_);
    MetaExecutor::prefetch(bucket, keep);
  }

 private:
  const DryRunOf& what_;
  Transfers* gathers_ = nullptr;
};

at::TensorOptions ids() { return at::TensorOptions().device(at::kMeta).dtype(at::kLong); }

nn::Field meta_field(const data::FieldSpec& spec, std::int64_t samples, std::int64_t rows, std::int64_t columns) {
  using Per = data::FieldSpec::Per;
  const auto options = spec.type == data::FieldSpec::Type::float32 ? ids().dtype(at::kFloat) : ids();
  if (spec.per == Per::token) return {spec.name, at::empty({rows, columns}, options)};
  return {spec.name, at::empty({spec.per == Per::sample ? samples : rows}, options)};
}

nn::Batch longest_batch(const DryRunOf& what, std::int64_t samples, bool training) {
  const auto columns = what.samples.longest_row;
  const auto& form = what.plugins.sample_form;
  const auto rows = samples * form.sequences;
  nn::Batch batch;
  batch.samples.count = samples;
  batch.samples.per_sample = form.sequences;
  for (const auto& field : form.fields) batch.samples.fields.push_back(meta_field(field, samples, rows, columns));
  batch.tokens = at::empty({rows, columns}, ids());
  batch.labels = at::empty({rows, columns}, ids());
  batch.positions = at::empty({rows, columns}, ids());
  batch.real = at::empty({rows, columns}, ids().dtype(at::kBool));
  batch.sample_ids = at::empty({rows}, ids());
  batch.training = training;
  if (what.plugins.data_options->packing) {
    // One sequence a row is as much memory as many short ones.
    nn::Documents documents;
    documents.packed = at::empty({rows * columns}, ids());
    documents.alone = at::empty({rows * columns}, ids());
    documents.sample_ids = batch.sample_ids;
    documents.count = rows;
    documents.longest = columns;
    documents.bounds = at::empty({rows + 1}, ids().dtype(at::kInt));
    documents.sequences = at::empty({rows}, ids());
    batch.documents = documents;
  }
  return batch;
}

nn::Batch longest_prompts(std::int64_t rows, std::int64_t columns) {
  nn::Batch batch;
  batch.tokens = at::empty({rows, columns}, ids());
  batch.positions = at::empty({rows, columns}, ids());
  batch.last = at::empty({rows}, ids());
  batch.sample_ids = at::empty({rows}, ids());
  return batch;
}

strategy::Start start_of(const objective::Sums& sums, const nn::Hidden& out) {
  auto minimised = sums.terms.front();
  for (std::size_t i = 1; i < sums.terms.size(); ++i) minimised = minimised + sums.terms[i];
  for (const auto& auxiliary : out.sums) minimised = minimised + auxiliary;
  return {minimised, at::empty({}, minimised.options())};
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

// Units as an engine gathers them.
class Gathered {
 public:
  Gathered(const AssembledModel& model, const DryRunOf& what, const shard::EngineOptions& options,
           const std::function<void(std::int64_t)>& gather)
      : plan_(shard::make_plan(pointers(model.units), options)),
        executor_(plan_, what, [gather](const shard::Buffer&, std::int64_t bytes) { gather(bytes); }),
        protocol_(plan_, options, executor_) {}
  void count_into(Transfers* gathers) { executor_.count_into(gathers); }
  template <class Runner>
  void follow(Runner& runner, std::string& at, const std::vector<nn::Unit*>& units, const std::string& of = {}) {
    for (std::size_t i = 0; i < units.size(); ++i) {
      runner.add_hooks(i, std::make_unique<Place>(at, of + units[i]->name()));
      runner.add_hooks(i, protocol_.hooks(i));
    }
  }

 private:
  shard::ShardPlan plan_;
  WorkExecutor executor_;
  shard::GatherProtocol protocol_;
};

// A model of the objective's plan.
struct Other {
  Other(FrozenModel made, const DryRunOf& what, const std::function<void(std::int64_t)>& gather)
      : frozen(std::move(made)),
        gathered(*frozen.model, what, without_optimizer(what.options), gather),
        runner(pointers(frozen.model->units), frozen.plugin.model.name) {}
  void follow(std::string& at) {
    gathered.follow(runner, at, pointers(frozen.model->units), frozen.plugin.name + "'s ");
  }
  static shard::EngineOptions without_optimizer(shard::EngineOptions options) {
    options.optimizer = nullptr;
    return options;
  }
  FrozenModel frozen;
  Gathered gathered;
  strategy::FrozenRunner runner;
};

// A model, those that the objective compares it with, and what units allocate and engines gather.
class Watched {
 public:
  explicit Watched(const DryRunOf& what)
      : strategies_(fresh_strategies(what.plugins.strategies, what.topology)),
        model_(assemble(what.config, what.plugins, strategies_, what.topology, build_model(what.plugins.model),
                        c10::Device(c10::DeviceType::Meta))),
        gathered_units_(*model_, what, what.options, [this](std::int64_t bytes) { gather(bytes); }),
        runner_(pointers(model_->units), what.plugins.model.name) {
    gathered_units_.follow(runner_, at_, pointers(model_->units));
    for (std::size_t i = 0; i < model_->units.size(); ++i) wrap_unit(strategies_, i, runner_);
    std::vector<strategy::FrozenRunner*> runners;
    for (const auto& frozen : what.frozen) {
      auto other = assemble_frozen(frozen.plugin, what.plugins.strategies, what.topology, model_->groups);
      others_.push_back(std::make_unique<Other>(other, what, [this](std::int64_t bytes) { gather(bytes); }));
      others_.back()->follow(at_);
      runners.push_back(&others_.back()->runner);
    }
    passes_.emplace(
        what.plugins.minimised, [this](const nn::Batch& batch) { return runner_.forward(batch); }, std::move(runners));
  }
  strategy::UnitRunner& runner() { return runner_; }
  strategy::Passes& passes() { return *passes_; }
  void count_gathers_into(Transfers* gathers) {
    gathered_units_.count_into(gathers);
    for (const auto& other : others_) other->gathered.count_into(gathers);
  }
  // Bytes of the tensors that the work has made and not freed.
  std::int64_t held() const { return memory_->now() - gathered_; }

  template <class Work>
  AtPeak peak_of(const Work& work) {
    meta::MemoryCounter memory;  // the weights' own shapes are made
    const Counting counting(*this, memory);
    memory.add(gathered_);
    AtPeak result;
    memory.set_on_peak([&] { result.gathered = gathered_, result.peak = at_; });
    work();
    result.work = memory.peak() - result.gathered;
    return result;
  }

 private:
  // Even if the work throws, nothing is added to a counter that is gone.
  class Counting {
   public:
    Counting(Watched& model, meta::MemoryCounter& memory) : model_(model) { model_.memory_ = &memory; }
    ~Counting() { model_.memory_ = nullptr; }
    Counting(const Counting&) = delete;
    Counting& operator=(const Counting&) = delete;

   private:
    Watched& model_;
  };

  void gather(std::int64_t bytes) {
    gathered_ += bytes;
    if (memory_) memory_->add(bytes);
  }

  Strategies strategies_;
  std::shared_ptr<const AssembledModel> model_;
  Gathered gathered_units_;
  std::string at_;
  strategy::UnitRunner runner_;
  std::vector<std::unique_ptr<Other>> others_;
  std::optional<strategy::Passes> passes_;
  meta::MemoryCounter* memory_ = nullptr;
  std::int64_t gathered_ = 0;
};

// Questions that a rank answers at once.
std::int64_t asked_at_once(const DryRunOf& what) {
  const auto& train = *what.config.train;
  const auto of_split = [&](std::int64_t asked) {
    return asked < 0 ? train.eval_batch : std::min(asked, train.eval_batch);
  };
  return std::max(what.samples.evaluates ? of_split(train.generate_samples) : 0,
                  of_split(train.generate_train_samples));
}

// The loss of a batch of the evaluation split, and a batch of questions up to their first tokens.
AtPeak evaluation_of(Watched& model, const DryRunOf& what) {
  const auto& samples = what.samples;
  const auto& train = *what.config.train;
  const auto questions = asked_at_once(what), prompt = std::min(samples.longest_prompt, samples.length);
  if (!samples.evaluates && questions == 0) return {};
  const at::NoGradGuard no_grad;
  return model.peak_of([&] {
    if (samples.evaluates) model.passes().evaluate(longest_batch(what, train.eval_batch, false));
    if (questions == 0 || prompt < 1) return;
    nn::KVCache cache(std::min(what.plugins.model_facts.max_positions, prompt + train.max_new_tokens));
    model.runner().forward(longest_prompts(questions, prompt), &cache);
  });
}

}  // namespace

MicroStepMemory dry_run(const DryRunOf& what) {
  Watched model(what);
  MicroStepMemory result;
  result.computed.recomputes = model.runner().recomputes();
  const auto& sizes = what.topology.batch;
  // What is held from one micro-step to the next is there in the second.
  const int micro_steps = sizes.accumulation > 1 ? 2 : 1;
  strategy::Interpreter interpreter(model.runner());
  strategy::Interpreter::Calls calls;
  calls.batch = [&](int) { return longest_batch(what, sizes.micro_batch, true); };
  calls.start = [&](const nn::Batch& batch, const nn::Hidden& out) {
    return start_of(model.passes().sums(batch, out.states), out);
  };
  calls.whole = [&](int micro, const std::function<void(const nn::Batch&)>& both) {
    const auto batch = calls.batch(micro);
    model.passes().run_others(batch);
    both(model.passes().trained(batch));
  };
  static_cast<AtPeak&>(result) = model.peak_of([&] {
    for (int i = 0; i < micro_steps; ++i) {
      model.count_gathers_into(i == 0 ? &result.computed.gathers : &result.computed.later_gathers);
      counting(result.computed, what.topology, [&] {
        calls.computed = [&](const auto&, const auto&) {
          if (i == 0) result.kept = model.held();
        };
        interpreter.run(strategy::accumulation(1, 1), calls);
      });
    }
  });
  model.count_gathers_into(nullptr);
  try {
    result.evaluation = evaluation_of(model, what);
  } catch (const std::exception& error) {
    result.evaluation_note = error.what();
  }
  return result;
}

}  // namespace capstan::assembly
