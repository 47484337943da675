#pragma once
/// Start here to test a plugin: what several ranks learn with it must be what a single rank learns.
///
///     using namespace capstan;
///     const auto alone = testing::train({});
///     const auto mine = testing::train({.world = 4, .config = "[strategy.mine]\n", .plugins = {"build/mine.so"}});
///     CHECK(testing::differences(mine, alone, 1e-10) == "");
///
/// Link capstan::testing. Ranks are threads of the test and compute in float64 on CPU; model and data are built in, so
/// the plugin's own file is the only one that is read.
#include <capstan/base/export.h>
#include <capstan/plugin/descriptor.h>
#include <capstan/plugin/registry.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#ifndef CAPSTAN_TESTED_PLUGIN  // capstan_add_test(… PLUGIN …) says it
#define CAPSTAN_TESTED_PLUGIN ""
#endif

CAPSTAN_BEGIN_NAMESPACE
namespace tokenizer {
class Tokenizer;
}
namespace data {
class DataSource;
struct SampleForm;
struct SplitRequest;
}  // namespace data
namespace monitor {
class Monitor;
}
namespace optimizer {
class Rule;
}
namespace objective {
class Objective;
}
namespace testing {

/// A short run. By default a transformer of two blocks (odd sizes, a tied head, fused q, k, v) learns 70 short
/// sequences in global batches of 24, which 1, 2, 3, 4, 6, 8, 12 or 24 data-parallel ranks share evenly.
struct Setting {
  int world = 1;  ///< ranks
  /// Tables added to the default configuration, or keys that win over its own: "[strategy.mine]\nevery = 4\n". Paths
  /// in it are absolute. What is built in:
  ///
  /// model "tiny": `dropout`; `vocab_size`, any (261 by default).
  /// data "tiny": `samples`; `length`, the tokens of every sequence, so that ranks have as many targets each (0, the
  /// default: 4 to 16); `sequences` of a sample; `fields`, such as ["weight float32 token", "group int64 sample"], with
  /// values that each sample has for itself. Its ids are below the model's vocab_size, whatever model that is, and
  /// below 29.
  /// optimizer "descent": plain gradient descent. Its updates are proportional to gradients, so the mean of ranks'
  /// parameters is what the mean of their gradients leads to; AdamW's are not.
  std::string config = {};
  /// "train.accumulation=2", as on the command line.
  std::vector<std::string> overrides = {};
  std::int64_t steps = 20;
  std::int64_t stop_after = -1;  ///< how many steps are made, as in a run that is stopped; -1: all
  /// Files of plugins of any kind: "build/mine.so". Others are searched for in the folder of Capstan's own.
  std::vector<std::filesystem::path> plugins = {};
  /// Plugins that the test program itself holds: type<…>(…) or linked(…).
  std::vector<plugin::Registration> types = {};
};

/// A class of the test program, as a plugin that no file holds:
///
///     testing::type<strategy::Strategy, Mine, MineOptions>("strategy", "mine")
template <class Interface, class Implementation, class O>
plugin::Registration type(std::string kind, std::string name) {
  plugin::Registry registry;
  plugin::Registration about;
  about.kind = std::move(kind);
  about.name = std::move(name);
  about.file = "the test program";
  registry.set_current(std::move(about));
  plugin::add_type<Interface, Implementation, O>(registry);
  return registry.all().front();
}

/// The plugin whose sources are compiled into the test program: linked(*capstan_plugin()), declared below. Throws the
/// Error that the host would throw when it loads the plugin's file: its kind and name must be the file's, which
/// capstan_add_test knows ("strategy/mine.so"), and it registers one type, whose options have names of their own.
plugin::Registration linked(const CapstanPluginDescriptor& descriptor,
                            const std::filesystem::path& file = CAPSTAN_TESTED_PLUGIN);

/// What was learnt. Tensors are unsharded, in the masters' dtype, by record name.
struct TrainResult {
  std::vector<double> losses;                   ///< each step's: mean over its target tokens
  std::vector<double> norms;                    ///< each step's: the gradient's global norm before clipping
  std::map<std::string, at::Tensor> gradients;  ///< the first step's, before clipping
  std::map<std::string, at::Tensor> weights;    ///< after the last step
  std::map<std::string, at::Tensor> evaluated;  ///< weights as evaluation and export see them at the end
  /// The optimizer's states after the last step, by state, then by record: those with a number for each of the record's
  /// elements.
  std::map<std::string, std::map<std::string, at::Tensor>> states;
  std::map<std::string, std::vector<std::string>> fused;  ///< all records of the fused group that a record is in
  /// Records of which ranks hold copies that differ, and by how much at most: "gradient of h.0.mlp.up" …
  std::map<std::string, double> disagreements;
};

/// Trains, with the loop of `capstan run`, in a temporary folder. Throws what the first failing rank threw: Error with
/// all faults if the setting is refused. Sets ATen's threads to one, since each rank is a thread. Call it from one
/// thread at a time.
TrainResult train(const Setting& setting);

/// Trains `steps` steps as `first` says, saves a checkpoint, and resumes from it to the end as `then` says, possibly
/// with another number of ranks and other strategies. Both settings must have the same batches. Losses and norms are
/// those of all steps, the weights those at the end:
///
///     CHECK(testing::differences(testing::train_resumed(mine, 7, mine), testing::train(mine), 0) == "");
TrainResult train_resumed(const Setting& first, std::int64_t steps, const Setting& then);

/// How `run` differs from `reference`, a line each; "" when it does not.
///
/// Losses and norms of all steps and the first step's gradients, by name: |a - b| <= tolerance · |b|, for a record with
/// the largest of its fused group instead of |b| (the gradient of a key's bias is pure rounding). Gradients tell
/// more than losses: AdamW hides a factor that all of them share. Final weights and the optimizer's states may be 1000
/// times as far apart, since AdamW turns rounding into updates where a gradient is 0; what was never trained differs by
/// more. Ranks' copies must
/// agree as well. A tolerance of 0 requires the same bits of all.
std::string differences(const TrainResult& run, const TrainResult& reference, double tolerance);

/// Names the options that change nothing, a line each; "" where each one changes a loss. Trains the setting as it is,
/// and then with each of them, as on the command line. Layouts do not show that an option or a port is never asked:
/// several ranks pass over it as one does.
///
///     CHECK(testing::without_effect({.plugins = {"build/mine.so"}}, {"strategy.mine.factor=2"}) == "");
std::string without_effect(const Setting& setting, const std::vector<std::string>& options);

/// What any plugin of a kind promises by its interface, whatever it is for. Each returns what is not so, a line each,
/// and
/// "" where all is:
///
///     CHECK(testing::optimizer_breaches([] { return std::make_shared<Mine>(options); }) == "");
///
/// Ids in the vocabulary, the same ones each time and on several threads; texts of known words come back the same from
/// the second time on; special ids; UTF-8 of every id; ranges and ordinary ids, where these are not refused. `more`:
/// texts besides the usual ones.
std::string tokenizer_breaches(const tokenizer::Tokenizer& tokenizer, const std::vector<std::string>& more = {});
/// Samples as `form` declares them and `request` limits them, the same ones in any order; questions and scores.
std::string data_breaches(const data::DataSource& source, const data::SplitRequest& request,
                          const data::SampleForm& form);
/// Runs of three steps, of none, and one that fails, on the first and on another rank; one step has no finite loss.
std::string monitor_breaches(const std::function<std::shared_ptr<monitor::Monitor>()>& make);
/// Zero stays zero, a skipped update changes nothing, gradients are scaled, slices may be cut where the grain is an
/// element, copies are the masters'. Joint updates are made as on one rank: train() shows that several do the same.
std::string optimizer_breaches(const std::function<std::shared_ptr<optimizer::Rule>()>& make);
/// A plan that is whole; and the same samples teach the same in one micro-batch, in four and on two ranks: `setting` is
/// for one rank and has a global batch of 24.
std::string objective_breaches(const objective::Objective& objective, const Setting& setting);

/// The largest difference between elements of the final weights: how far runs that are meant to differ are apart.
double weight_distance(const TrainResult& run, const TrainResult& reference);

}  // namespace testing
CAPSTAN_END_NAMESPACE

/// The entry of a plugin whose sources are part of the test program.
extern "C" const CapstanPluginDescriptor* capstan_plugin();
