#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/data/source.h>
#include <capstan/tokenizer/open.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/batches.h"
#include "data/content.h"
#include "job/open_tokenizer.h"
#include "job/topology.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// An evaluation set that has a name (data::Data::evaluation_sets).
struct EvalSet {
  std::string name;
  std::shared_ptr<const data::DataSource> source;
};

/// What a run learns and answers: its tokenizer, its splits, and the order of samples. It is made when the mesh is,
/// before the model is assembled.
struct Samples {
  tokenizer::Opened tokenizer;
  std::string model_folder;         ///< model.path's; empty: there is none
  std::string plugin;               ///< the data plugin, for messages
  std::int64_t length = 0;          ///< longest sequence that the data gives; 0 without data
  std::int64_t longest_row = 0;     ///< columns of a batch with such a one, padded; packed rows have no more
  std::int64_t longest_prompt = 0;  ///< longest one that leaves room for train.max_new_tokens tokens
  std::shared_ptr<const data::DataSource> train;  ///< null without data
  std::shared_ptr<const data::DataSource> eval;   ///< null without an evaluation file
  std::vector<EvalSet> eval_sets;                 ///< sets with a name, besides it
  bool evaluates = false;                         ///< there are any, or the options name one where none is opened
  data::Plan plan;                                ///< the plan of training
  std::optional<data::Content> content;           ///< the training data's content, where the run may be resumed
  std::vector<std::string> lacking;               ///< "data.train (squad.json)": what is not there yet
  std::string notes;                              ///< lines for people: shares for evaluation, the order's own
  bool lowest_is_best = true;                     ///< does a lower checkpoint.metric mean better?

  bool has_eval() const { return eval || !eval_sets.empty(); }
  /// What a split is opened with that has samples of at most this length.
  data::SplitRequest request(data::Split split, std::int64_t most, std::int64_t vocab_size) const {
    return request_with(tokenizer, model_folder, {split, nullptr, most, vocab_size});
  }
  /// How many samples one of the splits has; what asking throws names the data plugin.
  std::int64_t size(const data::DataSource& source) const;
  /// One of them. As size() otherwise.
  data::Sample sample(const data::DataSource& source, std::int64_t index) const;
  /// The same to be asked, cut to longest_prompt.
  data::Sample question(const data::DataSource& source, std::int64_t index) const;
};

/// Does the run judge its evaluations by checkpoint.metric?
inline bool goes_by_metric(const setup::Configuration& config) {
  return config.checkpoint->keep_best || config.train->stop_after_evals > 0;
}

/// Opens the splits and says what does not fit the model, the batches or [checkpoint]; nothing where there is a fault.
std::optional<Samples> open_samples(const setup::Configuration& config, const Plugins& plugins,
                                    const Topology& topology, plugin::Host& host, Diagnostics& faults);

}  // namespace job
CAPSTAN_END_NAMESPACE
