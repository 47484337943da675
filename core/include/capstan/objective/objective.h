#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/data/host_batch.h>
#include <capstan/data/source.h>
#include <capstan/nn/batch.h>
#include <capstan/nn/model.h>

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace objective {

/// A model besides the one that is trained. Nothing of it is: it has no gradients and no optimizer state, and no
/// checkpoint has its values, which each start and resume reads again. It is placed, sharded and computed as the
/// trained model is, but nothing that strategies add in structure() acts on it, and no dropout.
struct ModelSpec {
  std::string name;  ///< for messages, and for its rows of predicted memory: "teacher"
  /// The objective's option that names it, by what is set or by its default: a model's folder or hub id, or "start",
  /// which means the values that the trained model had before the run's first step.
  std::string option;
};

/// One of the forwards that every micro-batch goes through. One pass of an objective has the gradient; the others come
/// before it, have no dropout, and change nothing: they keep no activations, no load of experts, no figure.
struct PassSpec {
  std::string name;                                  ///< for messages: "policy"
  nn::HeadOutput output = nn::HeadOutput::loss_sum;  ///< all but last_logits; states: of another model only
  bool gradient = true;
  bool adapters = true;  ///< false: what strategies add to the layers does not act, which is the base model
  std::optional<std::size_t> model = {};  ///< index into Plan::models of what computes it; none: the trained model
  /// Which sequences of each sample go through it, ascending; empty: all. Otherwise it is a batch of its own, and
  /// log-probabilities come as sums over each of these sequences, [samples · sequences] float64, on every rank that
  /// shares one. May be no states and no values. Such steps run eagerly.
  std::vector<std::size_t> sequences = {};
};

/// A part of what is minimised: weight times its sum over all samples of a step, divided by one of the counts.
struct TermSpec {
  double weight = 1;
  std::size_t count = 0;  ///< index into Plan::counts
};

/// Says which value of a figure is the better one: what `checkpoint.mode` is where a run goes by it.
enum class Better { lower, higher, neither };

/// A number for metrics.jsonl, in training and evaluation: a sum over all samples, divided by one of the counts.
struct FigureSpec {
  std::string name;                 ///< name of a column, say "accuracy"
  std::size_t count = 0;            ///< index into Plan::counts
  Better better = Better::neither;  ///< neither: checkpoint.mode must be said where a run goes by it
};

/// A number of a whole step that the pass with the gradient needs, such as the mean distance from a reference: a sum
/// over all of its samples, of what passes without gradient gave, divided by one of the counts. An evaluation is one
/// step.
struct BaselineSpec {
  std::string name;       ///< for messages
  std::size_t count = 0;  ///< index into Plan::counts
};

/// What an objective needs and gives, the same in all of a run.
struct Plan {
  std::vector<ModelSpec> models = {};
  std::vector<PassSpec> passes;
  std::vector<std::string> counts;  ///< for messages: "target tokens", "pairs"
  /// The first one's count is what the loss is a mean over.
  std::vector<TermSpec> terms;
  std::vector<FigureSpec> figures;
  std::int64_t sequences = 0;           ///< a sample must have this number; 0: any
  std::string meaning = {};             ///< what sequences are to each other; another SampleForm::meaning is refused
  std::vector<data::FieldSpec> fields;  ///< the data must declare them
  /// With one, what the passes without gradient give stays in memory from all micro-batches until the last one has
  /// been trained on; none of them may give states.
  std::vector<BaselineSpec> baselines = {};
};

/// What is known of a model when an objective compares it with the trained one.
struct KnownModel {
  std::string name;    ///< ModelSpec::name
  std::string where;   ///< what in the configuration names it
  std::string folder;  ///< its files' place; empty: it begins with random values
  nn::ModelFacts facts;
};

/// Sums over one micro-batch's samples, each 0-dim, by Plan::terms and Plan::figures. Only terms have a gradient.
struct Sums {
  std::vector<at::Tensor> terms;
  std::vector<at::Tensor> figures;
};

/// What passes before the present one gave, by pass. Undefined: nothing yet, or another rank has the model's end.
struct Others {
  std::vector<at::Tensor> outputs;   ///< their heads gave these
  std::vector<at::Tensor> matrices;  ///< where another model gave states: its head's matrix, or this rank's rows of it
  std::vector<std::optional<double>> caps = {};  ///< and that head's nn::HeadSplit::cap
};

/// What training minimises: what a plugin of the kind `objective` implements. The gradient of a step is that of the sum
/// over terms of weight · sum / count, where sums and counts are over all samples of the step, however it is divided
/// into micro-batches, rows and ranks.
class Objective {
 public:
  virtual ~Objective();
  /// Faults of the options that only show together are added; nothing is thrown.
  virtual void check(Diagnostics& /*diagnostics*/) const {}
  /// What samples the data give: told once, before plan() is asked, where there are data.
  virtual void data_form(const data::SampleForm& /*form*/) {}
  virtual Plan plan() const = 0;
  /// Faults of its models (Plan::models) next to the one that is trained are added. Nothing is loaded yet.
  virtual void check_models(const KnownModel& /*trained*/, const std::vector<KnownModel>& /*others*/,
                            Diagnostics& /*diagnostics*/) const {}
  /// What the micro-batch adds to each of Plan::counts: known before its first forward. Called on the training thread.
  /// `batch` is that of the pass with the gradient.
  virtual std::vector<double> counts(const data::HostBatch& batch) const = 0;
  /// What the head gives in a pass with HeadOutput::function: called in its forward, with what the passes before it
  /// gave. The passes without gradient come first, in the plan's order.
  virtual at::Tensor head(std::size_t pass, const nn::HeadInput& input, const Others& others) const;
  /// What the micro-batch adds to each of Plan::baselines, from what its passes without gradient gave: 0-dim each.
  /// Without gradient, by the rules of sums(); whose batch has the results for the whole step (nn::Pass::baselines).
  virtual std::vector<at::Tensor> baselines(const Others& others, const nn::Batch& batch) const;
  /// Its sums, from what each pass gives (Plan::passes). `batch` is that of the pass with the gradient. Empty places of
  /// samples (nn::Batch::has_sample) must add nothing. No number may be waited for: `check` calls it with tensors that
  /// have no memory.
  virtual Sums sums(const std::vector<at::Tensor>& outputs, const nn::Batch& batch) const = 0;
};

}  // namespace objective
CAPSTAN_END_NAMESPACE
