#include "job/samples.h"

#include <capstan/base/counted.h>
#include <capstan/base/text.h>
#include <capstan/monitor/planned.h>
#include "plugin/guard.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include "data/content.h"
#include "data/fit.h"
#include "data/padding.h"
#include "job/data_plugins.h"
#include "job/open_tokenizer.h"
#include "job/override_points.h"
#include "setup/collect.h"
#include "setup/schedule.h"
#include "setup/stopping.h"

namespace capstan::job {
namespace {

// What [checkpoint] asks for and the run cannot give.
void check_checkpoints(const setup::Configuration& config, const Samples& samples, Diagnostics& faults) {
  const auto& options = config.checkpoint;
  const auto refuse = [&](auto member, const std::string& why, const std::string& fix) {
    if (options.is_set(member))
      faults.add(options.where(member), cat(options.name(member), " has no effect: ", why), fix);
  };
  // A run's own config.toml sets every option, mostly to what it is anyway.
  const setup::CheckpointOptions defaults;
  const char* off = "checkpoint.keep_best is off, and train.stop_after_evals is 0";
  const char* fix = "remove it, or set checkpoint.keep_best = true";
  const bool is_off = !goes_by_metric(config);
  if (is_off && options->metric != defaults.metric) refuse(&setup::CheckpointOptions::metric, off, fix);
  // "min" is what earlier versions wrote there.
  if (is_off && options->mode == "max") refuse(&setup::CheckpointOptions::mode, off, fix);
  if (samples.has_eval() || !samples.train) return;
  const char* none = "there is no evaluation data";
  const char* name_one = "name an evaluation file in [data]";
  if (options->keep_best) refuse(&setup::CheckpointOptions::keep_best, none, name_one);
  if (options->every_eval) refuse(&setup::CheckpointOptions::every_eval, none, name_one);
}

// The best checkpoint has the parameters, not what evaluation saw.
void check_final_weights(const config::Options<setup::CheckpointOptions>& options, const Plugins& plugins,
                         Diagnostics& faults) {
  if (options->final_weights != "best" || !any_claims(plugins.strategies, strategy::evaluation_weights_point)) return;
  faults.add(options.where(&setup::CheckpointOptions::final_weights),
             "checkpoint.final_weights is \"best\", but a strategy of this run evaluates other weights than it trains, "
             "which checkpoints do not hold",
             "set checkpoint.final_weights = \"last\"");
}

// What monitors are to watch and the run will not have.
void check_monitors(const setup::Configuration& config, const Plugins& plugins, const Samples& samples,
                    Diagnostics& faults) {
  if (!config.trains() || config.request.sizes_only) return;
  const monitor::PlannedRun run{config.request.world_size, samples.plan.steps, config.request.rank};
  for (const auto& made : plugins.monitors) {
    const auto* asked = dynamic_cast<const monitor::PlannedRunCheck*>(made.object.get());
    if (asked == nullptr) continue;
    setup::collect(
        faults, [&] { plugin::guard(made.name, "check", [&] { asked->check(run, faults); }); }, made.where);
  }
}

// Opens what can be opened, each thing as far as those before have no fault.
class SamplesOpener {
 public:
  SamplesOpener(const setup::Configuration& config, const Plugins& plugins, const Topology& topology,
                plugin::Host& host, Diagnostics& faults)
      : config_(config), plugins_(plugins), topology_(topology), host_(host), faults_(faults) {}

  Samples open() {
    const auto has_data = config_.request.purpose != setup::Purpose::generate;
    if (has_data && !plugins_.data) return samples_;
    samples_.model_folder = plugins_.model_options->path.value_or("");
    if (config_.request.may_lack_files) samples_.lacking = absent_files(config_, plugins_, host_);
    if (!config_.request.sizes_only && samples_.lacking.empty()) {
      open_all(has_data);
    } else if (plugins_.model) {
      judge_fit(has_data);
    }
    return samples_;
  }

 private:
  void open_all(bool has_data) {
    const auto before = faults_.size();
    if (has_data) check_data();
    if (auto tokenizer = open_tokenizer(config_, plugins_, host_, faults_)) samples_.tokenizer = std::move(*tokenizer);
    if (faults_.size() != before || !plugins_.model || !samples_.tokenizer.object) return;
    const auto fits = judge_fit(has_data);
    if (fits && has_data) open_splits();
    if (config_.trains() && samples_.train) make_plan();
    if (samples_.plan.steps > 0) look_at_samples();
  }

  data::ModelBounds bounds() const { return {plugins_.model_facts.vocab_size, plugins_.model_facts.max_positions}; }

  void check_data() {
    const auto& data = *plugins_.data;
    setup::collect(
        faults_, [&] { plugin::guard(data.name, "check", [&] { data.object->check(faults_); }); }, data.where);
  }

  bool judge_fit(bool has_data) {
    const auto before = faults_.size();
    const auto asked = has_data ? asked_length(plugins_) : AskedLength();
    const bool uses_tokenizer = !has_data || ask("uses_tokenizer", &data::Data::uses_tokenizer);
    data::check_fit(bounds(), uses_tokenizer ? samples_.tokenizer.object.get() : nullptr, asked.tokens,
                    where_of(*plugins_.model, "vocab_size"), asked.where, faults_);
    samples_.longest_prompt = bounds().positions - config_.train->max_new_tokens;
    if (!has_data) return faults_.size() == before;
    samples_.length = data::sample_length(bounds(), ask("max_length", &data::Data::max_length));
    if (samples_.length > 0) samples_.longest_row = longest_row();
    samples_.evaluates = ask("evaluates", &data::Data::evaluates) || !evaluation_sets().empty();
    return faults_.size() == before;
  }

  // What the data plugin answers, with its name around errors.
  template <class Answer>
  Answer ask(const char* phase, Answer (data::Data::*question)() const) const {
    const auto& data = *plugins_.data;
    return plugin::guard(data.name, phase, [&] { return ((*data.object).*question)(); });
  }

  std::int64_t longest_row() const {
    const bool packs = plugins_.data_parts.options->packing;
    return data::padded_columns(std::max(topology_.least_columns(), samples_.length - 1), config_.row_multiple(),
                                packs ? std::numeric_limits<std::int64_t>::max() : bounds().positions);
  }

  void open_splits() {
    const auto& data = *plugins_.data;
    samples_.plugin = data.name;
    const auto open = [&](data::Split split) { return data.object->open(request_of(split)); };
    setup::collect(faults_, [&] {
      plugin::guard(data.name, "open", [&] {
        const auto& only = config_.request.split;
        if (only != "eval") samples_.train = open(data::Split::train);
        if (only != "train") samples_.eval = open(data::Split::eval);
      });
    });
    if (config_.request.split.empty()) open_sets();
    samples_.notes = text_of_shares(plugins_);
    if (config_.trains()) judge_evaluations();
    samples_.evaluates = samples_.has_eval();
    if (samples_.train) take_part();
    const auto& train = *config_.train;
    const bool is_asked = config_.request.purpose == setup::Purpose::evaluate;
    if (samples_.eval) judge_questions(*samples_.eval, is_asked ? -1 : train.generate_samples);
    if (samples_.train && config_.trains()) judge_questions(*samples_.train, train.generate_train_samples);
  }

  data::SplitRequest request_of(data::Split split) const {
    return samples_.request(split, samples_.length, bounds().vocab_size);
  }

  void open_sets() {
    const auto& data = *plugins_.data;
    for (const auto& name : evaluation_sets()) {
      if (samples_.eval && is_figure("loss_" + name)) continue;
      setup::collect(faults_, [&] {
        plugin::guard(data.name, cat("open of evaluation set '", name, "'"), [&] {
          auto request = request_of(data::Split::eval);
          request.set = name;
          auto source = data.object->open(request);
          // A source of several may say that it evaluates, as is the default, and name no file.
          if (!source && !plugins_.data_parts.sources.empty()) return;
          if (!source) throw Error("the data plugin names this set and gives none", "correct its evaluation_sets()");
          samples_.eval_sets.push_back({name, std::move(source)});
        });
      });
    }
  }

  // Does the objective give it with the evaluation that has no name?
  bool is_figure(const std::string& name) const {
    if (!plugins_.minimised) return false;
    const auto figures = plugins_.minimised->plan().figures;
    return std::any_of(figures.begin(), figures.end(), [&](const auto& figure) { return figure.name == name; });
  }

  // An evaluation of which no token bears loss has none, and would be the best of all with 0.
  void judge_evaluations() {
    const auto judge = [&](const data::DataSource& source, const std::string& split) {
      const auto size = samples_.size(source);
      const auto may_bear_loss = [&](std::int64_t index) {
        try {
          return data::has_target(source.get(index));
        } catch (const std::exception&) {
          return true;  // the evaluation says so when it comes there
        }
      };
      std::int64_t i = 0;
      while (i < size && !may_bear_loss(i)) ++i;
      if (i < size) return;
      faults_.add(plugins_.data->where,
                  cat("no token of the evaluation '", split, "' (", counted(size, "sample"), ") bears loss"),
                  data::no_target_in_evaluation);
    };
    setup::collect(faults_, [&] {
      if (samples_.eval) judge(*samples_.eval, "eval");
      for (const auto& set : samples_.eval_sets) judge(*set.source, set.name);
    });
  }

  std::vector<std::string> evaluation_sets() const { return ask("evaluation_sets", &data::Data::evaluation_sets); }

  // A question that leaves no room for an answer would end a run when it is asked, maybe after its last step. Where a
  // whole sample leaves room, open() has judged them all.
  void judge_questions(const data::DataSource& source, std::int64_t wanted) {
    constexpr std::int64_t most_named = 10;
    if (samples_.longest_prompt >= samples_.length) return;
    const auto size = samples_.size(source);
    std::int64_t faults = 0;
    for (std::int64_t i = 0; i < (wanted < 0 ? size : std::min(wanted, size)) && faults < most_named; ++i) {
      const auto before = faults_.size();
      setup::collect(faults_, [&] { samples_.question(source, i); });
      if (faults_.size() > before) ++faults;
    }
  }

  // Keeps as many training samples as the ranks are to have.
  void take_part() {
    const auto& options = plugins_.data_parts.options;
    if (!options->samples_per_rank) return;
    const auto ranks = config_.request.world_size;
    const auto wanted = *options->samples_per_rank * ranks;
    const auto held = samples_.size(*samples_.train);
    if (wanted > held) {
      faults_.add(options.where(&setup::DataOptions::samples_per_rank),
                  cat("data.samples_per_rank = ", *options->samples_per_rank, " on ", counted(ranks, "rank"), " takes ",
                      counted(wanted, "sample"), ", the training data has ", held),
                  cat("set data.samples_per_rank = ", held / ranks, " or less, or leave data.train_samples out"));
      return;
    }
    samples_.train = std::make_shared<data::FirstSamples>(std::move(samples_.train), wanted);
  }

  void make_plan() {
    using setup::TrainOptions;
    const auto& train = config_.train;
    if (!train->max_steps && !train->epochs) return;
    data::PlanRequest request;
    request.samples = samples_.size(*samples_.train);
    setup::collect(
        faults_, [&] { request.order = own_order(); }, plugins_.data->where);
    if (request.order) request.samples = request.order->samples_per_epoch();
    request.global_batch = topology_.batch.global_batch;
    request.epochs = train->epochs;
    request.max_steps = train->max_steps;
    request.drop_last = train->drop_last;
    request.shuffle = train->shuffle;
    request.seed = static_cast<std::uint64_t>(config_.run->seed);
    request.where_samples = plugins_.data->where;
    request.where_batch = train.where(&TrainOptions::global_batch);
    request.where_length = train.where(train->max_steps ? &TrainOptions::max_steps : &TrainOptions::epochs);
    samples_.plan = data::make_plan(request, faults_);
    if (samples_.plan.steps > 0) setup::check_schedule_length(config_.optimizer, samples_.plan.steps, faults_);
  }

  std::shared_ptr<data::SampleOrder> own_order() {
    const auto& train = config_.train;
    const data::OrderRequest request{static_cast<std::uint64_t>(config_.run->seed), train->shuffle,
                                     topology_.batch.global_batch, train->max_steps};
    std::shared_ptr<data::SampleOrder> order =
        plugin::guard(samples_.plugin, "order", [&] { return samples_.train->order(request); });
    if (order) samples_.notes += order->text();
    return order;
  }

  // What many samples have in common, such as that nothing of them is learned, is known before the first step; the rest
  // when they are drawn.
  void look_at_samples() {
    const auto& data = *plugins_.data;
    const auto& options = plugins_.data_parts.options;
    const auto held = samples_.size(*samples_.train);
    bool has_documents = false;
    const auto look = data::look_at(held, [&](std::int64_t index) {
      auto sample = samples_.sample(*samples_.train, index);
      has_documents = has_documents || !sample.begins.empty();
      return sample;
    });
    if (has_documents && !options->packing)
      faults_.add(data.where, "samples of the training data have several documents", data::documents_fix);
    if (look.without_target > 0 && options->no_target == "refuse") {
      faults_.add(data.where,
                  cat("no token of the training sample '", look.first_without_target, "' bears loss; ",
                      look.without_target, " of ", look.looked_at, " that were looked at are so"),
                  data::no_target_fix);
    }
    const auto& checkpoint = *config_.checkpoint;
    if (checkpoint.may_save() || checkpoint.resume != "none") {
      samples_.content =
          data::Content{look.sum, sums_of_files(plugins_),
                        plugin::guard(samples_.plugin, "content", [&] { return samples_.train->content(); })};
    }
  }

  const setup::Configuration& config_;
  const Plugins& plugins_;
  const Topology& topology_;
  plugin::Host& host_;
  Diagnostics& faults_;
  Samples samples_;
};

}  // namespace

std::optional<Samples> open_samples(const setup::Configuration& config, const Plugins& plugins,
                                    const Topology& topology, plugin::Host& host, Diagnostics& faults) {
  auto samples = SamplesOpener(config, plugins, topology, host, faults).open();
  check_checkpoints(config, samples, faults);
  const auto& plan = samples.plan;
  if (plan.steps > 0)
    setup::check_stopping(config.train, plan.steps, samples.has_eval() ? plan.steps_per_epoch : 0, faults);
  check_final_weights(config.checkpoint, plugins, faults);
  check_monitors(config, plugins, samples, faults);
  if (!faults.empty()) return {};
  return samples;
}

std::int64_t Samples::size(const data::DataSource& source) const {
  return plugin::guard(plugin, "size", [&] { return source.size(); });
}

data::Sample Samples::sample(const data::DataSource& source, std::int64_t index) const {
  return plugin::guard(plugin, cat("get of sample ", index), [&] { return source.get(index); });
}

data::Sample Samples::question(const data::DataSource& source, std::int64_t index) const {
  return plugin::guard(plugin, cat("question of sample ", index),
                       [&] { return source.question(index, longest_prompt); });
}

}  // namespace capstan::job
