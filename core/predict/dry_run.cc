#include "predict/dry_run.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/text.h>
#include "step/interpreter.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "comm/planned_group.h"
#include "job/assemble.h"
#include "predict/action_counter.h"
#include "predict/watched_model.h"
#include "strategy/passed_over.h"

namespace capstan::predict {
namespace {

using Kind = strategy::Action::Kind;

// Tensors of the same shapes.
nn::Hidden like(const nn::Hidden& hidden) {
  nn::Hidden other;
  if (hidden.states.defined())
    other.states = at::empty_like(hidden.states).set_requires_grad(hidden.states.requires_grad());
  for (const auto& sum : hidden.sums) other.sums.push_back(at::empty_like(sum).set_requires_grad(sum.requires_grad()));
  for (const auto& one : hidden.carried)
    other.carried.push_back(at::empty_like(one).set_requires_grad(one.requires_grad()));
  return other;
}

void start_at(const objective::Sums& sums, step::MicroContext& context) {
  auto minimised = sums.terms.front();
  for (std::size_t i = 1; i < sums.terms.size(); ++i) minimised = minimised + sums.terms[i];
  for (const auto& auxiliary : context.out.sums) minimised = minimised + auxiliary;
  context.roots = {minimised};
  context.gradients = {at::empty({}, minimised.options())};
}

using Models = std::vector<std::unique_ptr<WatchedModel>>;

// Forward of a batch through the stages of all positions: what comes into each stage. `seen` is told what each takes.
std::vector<nn::Hidden> through_stages(const Models& models, const nn::Batch& batch, nn::KVCache* cache,
                                       const std::function<void(std::size_t position, const AtPeak&)>& seen,
                                       bool with_gradients = false) {
  const at::AutoGradMode mode(with_gradients);
  std::vector<nn::Hidden> inputs(1);
  const auto& positions = models.front()->model().stages.positions;
  for (std::size_t s = 0; s < positions.size(); ++s) {
    const auto position = static_cast<std::size_t>(positions[s]);
    auto& runner = models[position]->runner();
    const auto& stages = runner.stages();
    step::MicroContext context{&stages.stages[stages.index_of(static_cast<int>(s))], batch};
    context.cache = cache;
    const auto peak = models[position]->peak_of([&] {
      context.in = like(inputs.back());
      runner.forward(context);
    });
    seen(position, peak);
    inputs.push_back(like(context.out));
  }
  return inputs;
}

// Questions that a rank answers at once.
std::int64_t asked_at_once(const DryRunOf& what) {
  const auto& train = *what.config.train;
  if (!what.plugins.model_facts.gives(nn::HeadOutput::last_logits)) return 0;
  if (!what.config.trains()) return train.eval_batch;
  const auto of_split = [&](std::int64_t asked) {
    return asked < 0 ? train.eval_batch : std::min(asked, train.eval_batch);
  };
  return std::max(what.samples.evaluates ? of_split(train.generate_samples) : 0,
                  of_split(train.generate_train_samples));
}

// The loss of a batch of the evaluation split, and a batch of questions up to their first tokens, into `results`.
void evaluate(const Models& models, const DryRunOf& what, AtPeak MicroStepMemory::*into,
              std::vector<MicroStepMemory>& results) {
  const auto& train = *what.config.train;
  const auto seen = [&](std::size_t position, const AtPeak& peak) {
    auto& evaluation = results[position].*into;
    if (peak.bytes() > evaluation.bytes()) evaluation = peak;
  };
  try {
    const auto longest = what.samples.longest_prompt, length = what.samples.length;
    if (what.samples.evaluates || (!what.config.trains() && length > 0)) {
      auto& first = *models.front();
      const auto batches = longest_batches(what, first.model().sequence_cut, train.eval_batch, false);
      if (first.runner().stages().is_whole()) {
        seen(0, first.peak_of([&] { first.passes().evaluate(batches); }));
      } else {
        for (const auto& batch : batches) through_stages(models, first.passes().trained(batch), nullptr, seen);
      }
    }
    const auto questions = asked_at_once(what), prompt = length > 0 ? std::min(longest, length) : longest;
    if (questions == 0 || prompt < 1) return;
    nn::KVCache cache(std::min(what.plugins.model_facts.max_positions, prompt + train.max_new_tokens));
    through_stages(models, longest_prompts(questions, prompt), &cache, seen);
  } catch (const std::exception& error) {
    for (auto& result : results) result.evaluation_note = error.what();
  }
}

// The same where each forward gathers, and where all is there from the first one on.
void evaluate(const Models& models, const DryRunOf& what, std::vector<MicroStepMemory>& results) {
  evaluate(models, what, &MicroStepMemory::evaluation, results);
  if (std::none_of(results.begin(), results.end(), [](const auto& one) { return one.evaluation.gathered > 0; })) return;
  std::vector<std::shared_ptr<void>> held;
  for (const auto& model : models) held.push_back(model->protocol().hold());
  for (int forwards = 0; forwards < 2; ++forwards) evaluate(models, what, &MicroStepMemory::held, results);
}

// Groups that tell of what is sent.
step::Channels planned_channels(const job::AssembledModel& model, const job::Topology& topology) {
  const auto ranks = topology.mesh.ranks_along({layout::Axis::pp}, topology.rank);
  return step::channels_of(
      model.stages, topology.position(), ranks, [&](const step::Channel& channel, const std::vector<int>& ends) {
        const int own = channel.from == topology.position() ? 0 : 1;
        return std::make_shared<comm::PlannedGroup>("stages", ends, own, c10::Device(c10::DeviceType::Meta));
      });
}

// Tells what comes into this rank's stages, and what comes back to them.
void expect(step::Interpreter& interpreter, const strategy::RankStages& stages, const nn::Batch& batch,
            const std::vector<nn::Hidden>& inputs) {
  for (const auto& stage : stages.stages) {
    const auto number = static_cast<std::size_t>(stage.number);
    if (stage.before >= 0) interpreter.expect(stage.number, batch, inputs[number]);
    if (stage.after >= 0) interpreter.expect(stage.number + 1, batch, inputs[number + 1]);
  }
}

// In stages the passes without gradient are forwards too, which come before the program and gather for themselves.
void add_other_passes(const DryRunOf& what, std::vector<plan::ActionWork>& actions) {
  for (auto& [action, work] : actions) {
    if (action.kind != Kind::forward && action.kind != Kind::send_states) continue;
    auto one = work;
    one.copies.clear();
    if (what.options.gathers_once) one.later_gathers = one.gathers;
    for (auto more = sequences_of_others(what); more > 0; --more) add(work, one);
  }
}

// What a micro-batch computes in all stages. A program may have a stage's backward whole and in parts: it counts once.
plan::MicroStepWork of_micro_batch(const std::vector<plan::ActionWork>& actions) {
  const auto has_whole = [&](int stage) {
    return std::any_of(actions.begin(), actions.end(),
                       [&](const auto& one) { return one.action.kind == Kind::backward && one.action.stage == stage; });
  };
  plan::MicroStepWork sum;
  for (const auto& one : actions) {
    const bool is_part = one.action.kind == Kind::backward_input || one.action.kind == Kind::backward_weight;
    if (!strategy::is_transfer(one.action) && !(is_part && has_whole(one.action.stage))) add(sum, one.work);
  }
  return sum;
}

// A step on the meta device: each micro-batch is the longest there can be.
class CountedStep : public step::Workload {
 public:
  CountedStep(WatchedModel& model, const DryRunOf& what, std::int64_t& kept)
      : model_(model), what_(what), counter_(model, what.topology), kept_(kept) {}

  nn::Batch batch(int /*micro*/) override { return model_.passes().trained(longest().front()); }
  void before(const strategy::Action& action) override { counter_.begin(action); }
  void before_backward(int index) override {
    if (!is_whole()) model_.protocol().begin_backward(index);
  }
  void computed(const step::MicroContext& /*context*/) override {
    if (kept_ == 0) kept_ = model_.held();
  }
  void start(int /*micro*/, step::MicroContext& context) override {
    const auto& output = context.out.states;
    // In stages other passes come before the step; what they give has the shapes of their batches.
    if (!is_whole()) others_ = others_like(output);
    start_at(model_.passes().sums(context.batch, std::move(others_), output), context);
  }
  void forward_backward(step::Interpreter& interpreter, int micro) override {
    const auto batches = longest();
    others_ = model_.passes().run_others(batches);
    interpreter.forward_backward(micro, model_.passes().trained(batches.front(), others_), *this);
  }
  std::vector<plan::ActionWork> take() { return counter_.take(); }

 private:
  std::vector<at::Tensor> others_like(const at::Tensor& output) const {
    const auto batches = longest();
    std::vector<at::Tensor> others;
    for (std::size_t i = 0; i < what_.plugins.minimised->plan().passes.size(); ++i) {
      const auto& batch = batches[what_.plugins.minimised->choice_of(i)];
      auto shape = output.sizes().vec();
      if (!shape.empty()) shape.front() = batch.tokens.numel();
      others.push_back(model_.passes().as_asked(i, batch, at::empty(shape, output.options())));
    }
    return others;
  }
  bool is_whole() const { return model_.runner().stages().is_whole(); }
  std::vector<nn::Batch> longest() const {
    return longest_batches(what_, model_.model().sequence_cut, what_.topology.batch.micro_batch, true);
  }

  WatchedModel& model_;
  const DryRunOf& what_;
  ActionCounter counter_;
  std::int64_t& kept_;  // bytes that are held when the first stage is computed; 0 until then
  std::vector<at::Tensor> others_;
};

// `inputs`: what comes into each stage of the model.
void run_step(WatchedModel& model, const DryRunOf& what, const std::vector<nn::Hidden>& inputs,
              MicroStepMemory& result) {
  const auto& sizes = what.topology.batch;
  const auto& stages = model.runner().stages();
  step::Interpreter interpreter(model.runner(), planned_channels(model.model(), what.topology));
  CountedStep step(model, what, result.kept);
  expect(interpreter, stages, step.batch(0), inputs);
  const auto program = model.model().program(static_cast<int>(sizes.accumulation));
  const auto [part, in_flight] = strategy::busiest_part(program, stages);
  static_cast<AtPeak&>(result) = model.peak_of([&, &part = part] { interpreter.run(part, step); });
  result.in_flight = in_flight;
  result.actions = step.take();
  if (!stages.is_whole()) add_other_passes(what, result.actions);
  result.computed = of_micro_batch(result.actions);
  result.computed.recomputes = model.runner().recomputes();
}

Models models_of(const std::vector<DryRunOf>& positions) {
  Models models;
  for (const auto& what : positions) models.push_back(std::make_unique<WatchedModel>(what));
  return models;
}

// Which units made what stages carry decides whether it has a gradient. Models of its own run that forward, since no
// backward follows it.
void mark_carried(const std::vector<DryRunOf>& positions, const nn::Batch& batch, std::vector<nn::Hidden>& inputs) {
  if (std::all_of(inputs.begin(), inputs.end(), [](const auto& input) { return input.carried.empty(); })) return;
  const auto marked = through_stages(
      models_of(positions), batch, nullptr, [](std::size_t, const AtPeak&) {}, true);
  for (std::size_t s = 1; s < inputs.size(); ++s) {
    for (std::size_t i = 0; i < inputs[s].carried.size(); ++i)
      inputs[s].carried[i].set_requires_grad(marked[s].carried[i].requires_grad());
  }
}

// What comes into each stage in training, where gradients of some of it are wanted.
std::vector<nn::Hidden> inputs_of(const Models& models, const std::vector<DryRunOf>& positions) {
  const auto& what = positions.front();
  const auto& model = models.front()->model();
  const auto reached = strategy::last_in_backward(job::pointers(model.units));
  const auto longest = longest_batches(what, model.sequence_cut, what.topology.batch.micro_batch, true);
  const auto batch = models.front()->passes().trained(longest.front());
  auto inputs = through_stages(models, batch, nullptr, [](std::size_t, const AtPeak&) {});
  for (std::size_t s = 1; s < model.stages.first_units.size(); ++s) {
    const bool wanted = reached < model.stages.first_units[s];
    inputs[s].states.set_requires_grad(wanted);
    for (auto& sum : inputs[s].sums) sum.set_requires_grad(wanted);
  }
  mark_carried(positions, batch, inputs);
  return inputs;
}

}  // namespace

std::vector<MicroStepMemory> dry_run(const std::vector<DryRunOf>& positions) {
  const auto models = models_of(positions);
  const auto& first = positions.front();
  std::vector<MicroStepMemory> results(positions.size());
  std::vector<nn::Hidden> inputs;
  const bool is_whole = models.front()->runner().stages().is_whole();
  const bool trains = first.config.trains();
  if (!is_whole && trains) inputs = inputs_of(models, positions);
  // What is in use when a part of a program ends stays gathered.
  const bool evaluates_last = is_whole && !first.options.gathers_once;
  if (!evaluates_last) evaluate(models, first, results);
  for (std::size_t i = 0; trains && i < models.size(); ++i) {
    models[i]->gather_again();
    run_step(*models[i], positions[i], inputs, results[i]);
    results[i].passed_over = strategy::passed_over(models[i]->runner().units());
  }
  if (evaluates_last) evaluate(models, first, results);
  return results;
}

}  // namespace capstan::predict
