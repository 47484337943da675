#include "assembly/dry_run.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/text.h>
#include "strategy/interpreter.h"
#include "strategy/unit_runner.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "assembly/assemble.h"
#include "assembly/longest_batch.h"
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

// Tensors of the same shapes.
nn::Hidden like(const nn::Hidden& hidden) {
  nn::Hidden other;
  if (hidden.states.defined())
    other.states = at::empty_like(hidden.states).set_requires_grad(hidden.states.requires_grad());
  for (const auto& sum : hidden.sums) other.sums.push_back(at::empty_like(sum).set_requires_grad(sum.requires_grad()));
  return other;
}

strategy::Start start_of(const objective::Sums& sums, const nn::Hidden& out) {
  auto minimised = sums.terms.front();
  for (std::size_t i = 1; i < sums.terms.size(); ++i) minimised = minimised + sums.terms[i];
  for (const auto& auxiliary : out.sums) minimised = minimised + auxiliary;
  return {minimised, at::empty({}, minimised.options())};
}

// A model, and what its units allocate and its engine gathers.
class Watched {
 public:
  explicit Watched(const DryRunOf& what)
      : strategies_(fresh_strategies(what.plugins.strategies, what.topology)),
        model_(assemble(what.config, what.plugins, strategies_, what.topology, build_model(what.plugins),
                        c10::Device(c10::DeviceType::Meta))),
        plan_(shard::make_plan(model_->own_units(), what.options)),
        executor_(plan_, what, [this](const shard::Buffer&, std::int64_t bytes) { gather(bytes); }),
        protocol_(plan_, what.options, executor_),
        runner_(model_->own_units(), model_->rank_stages, what.plugins.model.name),
        passes_(what.plugins.minimised, [this](const nn::Batch& batch) { return runner_.forward(batch); }) {
    const auto units = model_->own_units();
    for (std::size_t i = 0; i < units.size(); ++i) {
      runner_.add_hooks(i, std::make_unique<Place>(at_, units[i]->name()));
      runner_.add_hooks(i, protocol_.hooks(i));
      wrap_unit(strategies_, i, runner_);
    }
  }
  strategy::UnitRunner& runner() { return runner_; }
  const AssembledModel& model() const { return *model_; }
  shard::GatherProtocol& protocol() { return protocol_; }
  // As after an update.
  void gather_again() {
    for (std::size_t b = 0; b < plan_.buckets.size(); ++b) protocol_.invalidate(b);
  }
  strategy::Passes& passes() { return passes_; }
  void count_gathers_into(Transfers* gathers) { executor_.count_into(gathers); }
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
  shard::ShardPlan plan_;
  WorkExecutor executor_;
  shard::GatherProtocol protocol_;
  std::string at_;
  strategy::UnitRunner runner_;
  strategy::Passes passes_;
  meta::MemoryCounter* memory_ = nullptr;
  std::int64_t gathered_ = 0;
};

// What a program's actions compute and move: of those that differ in their micro-batch the last one, and the gathers of
// the first.
class ActionCounter {
 public:
  ActionCounter(Watched& model, const Topology& topology) : model_(model), topology_(topology) {}
  void begin(const strategy::Action& action) {
    end();
    const auto same = [&](const auto& one) {
      return one.action.kind == action.kind && one.action.stage == action.stage;
    };
    auto found = std::find_if(actions_.begin(), actions_.end(), same);
    const bool is_first = found == actions_.end();
    if (is_first) found = actions_.insert(found, ActionWork{{action.kind, action.stage, 0}, {}});
    now_ = &found->work;
    now_->waited.clear();
    now_->later_gathers.clear();
    model_.count_gathers_into(is_first ? &now_->gathers : &now_->later_gathers);
    listening_.emplace([this](const comm::PlannedCall& call) {
      const auto nodes = nodes_of(call.ranks, topology_.ranks_per_node);
      ++now_->waited[{call.operation, static_cast<int>(call.ranks.size()), nodes, call.bytes}];
    });
    compute_.emplace();
  }
  void end() {
    if (!now_) return;
    now_->compute = compute_->work();
    compute_.reset();
    listening_.reset();
    model_.count_gathers_into(nullptr);
    now_ = nullptr;
  }
  std::vector<ActionWork> take() {
    end();
    return std::move(actions_);
  }

 private:
  Watched& model_;
  const Topology& topology_;
  std::vector<ActionWork> actions_;
  MicroStepWork* now_ = nullptr;
  std::optional<comm::PlannedCalls> listening_;
  std::optional<meta::WorkCounter> compute_;
};

using Models = std::vector<std::unique_ptr<Watched>>;

// Forward of a batch through the stages of all positions, without gradient: what comes into each stage. `seen` is told
// what each takes.
std::vector<nn::Hidden> through_stages(const Models& models, const nn::Batch& batch, nn::KVCache* cache,
                                       const std::function<void(std::size_t position, const AtPeak&)>& seen) {
  const at::NoGradGuard no_grad;
  std::vector<nn::Hidden> inputs(1);
  const auto& positions = models.front()->model().stages.positions;
  for (std::size_t s = 0; s < positions.size(); ++s) {
    const auto position = static_cast<std::size_t>(positions[s]);
    auto& runner = models[position]->runner();
    strategy::MicroContext context{batch, {}, {}};
    const auto peak = models[position]->peak_of([&] {
      context.in = like(inputs.back());
      runner.forward(context, runner.stages().stages[runner.stages().index_of(static_cast<int>(s))], cache);
    });
    seen(position, peak);
    inputs.push_back(like(context.out));
  }
  return inputs;
}

// Questions that a rank answers at once.
std::int64_t asked_at_once(const DryRunOf& what) {
  const auto& train = *what.config.train;
  const auto of_split = [&](std::int64_t asked) {
    return asked < 0 ? train.eval_batch : std::min(asked, train.eval_batch);
  };
  return std::max(what.samples.evaluates ? of_split(train.generate_samples) : 0,
                  of_split(train.generate_train_samples));
}

// The loss of a batch of the evaluation split, and a batch of questions up to their first tokens, into `results`.
void evaluate(const Models& models, const DryRunOf& what, std::vector<MicroStepMemory>& results) {
  const auto& train = *what.config.train;
  const auto seen = [&](std::size_t position, const AtPeak& peak) {
    auto& evaluation = results[position].evaluation;
    if (peak.bytes() > evaluation.bytes()) evaluation = peak;
  };
  try {
    if (what.samples.evaluates) {
      const auto batch = longest_batch(what, train.eval_batch, false);
      through_stages(models, models.front()->passes().trained(batch), nullptr, seen);
    }
    const auto questions = asked_at_once(what), prompt = std::min(what.samples.longest_prompt, what.samples.length);
    if (questions == 0 || prompt < 1) return;
    nn::KVCache cache(std::min(what.plugins.model_facts.max_positions, prompt + train.max_new_tokens));
    through_stages(models, longest_prompts(questions, prompt), &cache, seen);
  } catch (const std::exception& error) {
    for (auto& result : results) result.evaluation_note = error.what();
  }
}

// Groups that tell of what is sent.
strategy::Channels planned_channels(const AssembledModel& model, const Topology& topology) {
  const auto ranks = topology.mesh.ranks_along({layout::Axis::pp}, topology.rank);
  return strategy::channels_of(
      model.stages, topology.position(), ranks, [&](const strategy::Channel& channel, const std::vector<int>& ends) {
        const int own = channel.from == topology.position() ? 0 : 1;
        return std::make_shared<comm::PlannedGroup>("stages", ends, own, c10::Device(c10::DeviceType::Meta));
      });
}

// `inputs`: what comes into each stage of the model.
void run_step(Watched& model, const DryRunOf& what, const std::vector<nn::Hidden>& inputs, MicroStepMemory& result) {
  const auto& sizes = what.topology.batch;
  const auto& stages = model.runner().stages();
  strategy::Interpreter interpreter(model.runner(), planned_channels(model.model(), what.topology));
  ActionCounter counter(model, what.topology);
  strategy::Interpreter::Calls calls;
  calls.batch = [&](int) { return model.passes().trained(longest_batch(what, sizes.micro_batch, true)); };
  calls.before = [&](const strategy::Action& action) { counter.begin(action); };
  if (!stages.is_whole()) calls.before_backward = [&](int index) { model.protocol().begin_backward(index); };
  calls.computed = [&](const auto&, const auto&) {
    if (result.kept == 0) result.kept = model.held();
  };
  std::vector<at::Tensor> others;
  calls.start = [&](int, const nn::Batch& batch, const nn::Hidden& out) {
    // In stages other passes come before the step, and give the same as the one that is trained.
    if (!stages.is_whole()) others.assign(what.plugins.minimised->plan().passes.size(), at::empty_like(out.states));
    return start_of(model.passes().sums(batch, std::move(others), out.states), out);
  };
  calls.whole = [&](int, const std::function<void(const nn::Batch&)>& both) {
    const auto batch = longest_batch(what, sizes.micro_batch, true);
    others = model.passes().run_others(batch);
    both(model.passes().trained(batch));
  };
  for (const auto& stage : stages.stages) {
    const auto number = static_cast<std::size_t>(stage.number);
    if (stage.before >= 0) interpreter.expect(stage.number, calls.batch(0), inputs[number]);
    if (stage.after >= 0) interpreter.expect(stage.number + 1, calls.batch(0), inputs[number + 1]);
  }
  const auto program = model.model().program(static_cast<int>(sizes.accumulation));
  const auto [part, in_flight] = strategy::busiest_part(program, stages);
  static_cast<AtPeak&>(result) = model.peak_of([&, &part = part] { interpreter.run(part, calls); });
  result.in_flight = in_flight;
  result.actions = counter.take();
  for (const auto& [action, work] : result.actions) {
    if (!strategy::is_transfer(action)) add(result.computed, work);
  }
  result.computed.recomputes = model.runner().recomputes();
}

// What comes into each stage in training, where gradients of some of it are wanted.
std::vector<nn::Hidden> inputs_of(const Models& models, const DryRunOf& what) {
  const auto& model = models.front()->model();
  const auto reached = strategy::last_in_backward(pointers(model.units));
  const auto batch = models.front()->passes().trained(longest_batch(what, what.topology.batch.micro_batch, true));
  auto inputs = through_stages(models, batch, nullptr, [](std::size_t, const AtPeak&) {});
  for (std::size_t s = 1; s < model.stages.first_units.size(); ++s) {
    const bool wanted = reached < model.stages.first_units[s];
    inputs[s].states.set_requires_grad(wanted);
    for (auto& sum : inputs[s].sums) sum.set_requires_grad(wanted);
  }
  return inputs;
}

}  // namespace

std::vector<MicroStepMemory> dry_run(const std::vector<DryRunOf>& positions) {
  Models models;
  for (const auto& what : positions) models.push_back(std::make_unique<Watched>(what));
  const auto& first = positions.front();
  std::vector<MicroStepMemory> results(positions.size());
  std::vector<nn::Hidden> inputs;
  // What is in flight when a part of a program ends stays gathered.
  const bool evaluates_last = models.size() == 1;
  if (!evaluates_last) {
    inputs = inputs_of(models, first);
    evaluate(models, first, results);
  }
  for (std::size_t i = 0; i < models.size(); ++i) {
    models[i]->gather_again();
    run_step(*models[i], positions[i], inputs, results[i]);
  }
  if (evaluates_last) evaluate(models, first, results);
  return results;
}

}  // namespace capstan::assembly
