#include "setup/options.h"

namespace capstan::setup {

void DataOptions::describe(config::OptionTable<DataOptions>& t) {
  t.add("tokenizer", &DataOptions::tokenizer)
      .doc(
          "auto: the plugin of [tokenizer], without that table model.path's tokenizer.json, or byte without a "
          "model.path; byte: the built-in byte tokenizer; else a tokenizer.json, a folder that holds one, or a model "
          "of the hub that is in its cache");
  t.add("cache", &DataOptions::cache)
      .path()
      .doc(
          "folder for tokenized samples, which rank 0 of each node writes before the first run that needs them and all "
          "ranks map; not set: samples are tokenized when they are needed");
  t.add("packing", &DataOptions::packing)
      .doc(
          "put the samples of a micro-batch one after another into rows of up to max_length tokens; each attends only "
          "to itself and has its own positions, so that it learns as without packing, with less padding");
  t.add("samples_per_rank", &DataOptions::samples_per_rank)
      .min(1)
      .doc(
          "train on the first samples, this many for each of all ranks, for weak scaling; not set: on all that "
          "the data plugin gives");
  t.add("no_target", &DataOptions::no_target)
      .choices({"refuse", "skip"})
      .doc(
          "a training sample of which no token bears loss, from which nothing is learned. refuse: it is named, and the "
          "run does not train on it; skip: it is left out, metrics.jsonl counts it (samples_without_target), and a "
          "step that has no other samples updates nothing");
  t.add("eval_fraction", &DataOptions::eval_fraction)
      .min(0)
      .max(1)
      .doc(
          "share of the training samples that is for evaluation instead, where no evaluation file is named: which ones "
          "follows from run.seed and their numbers; 0: none");
}

void DataSourceOptions::describe(config::OptionTable<DataSourceOptions>& t) {
  constexpr double most = 1e12;
  t.add("plugin", &DataSourceOptions::plugin)
      .required()
      .doc("the data plugin of this source, whose options stand in the same table");
  t.add("name", &DataSourceOptions::name)
      .doc(
          "what its loss and share are named after: letters, digits, _ and -; not set: the name of its training file, "
          "or of its plugin");
  t.add("weight", &DataSourceOptions::weight)
      .above(0)
      .max(most)
      .doc("how much is drawn of it, next to the other sources' weights; data.weights says of what");
}

}  // namespace capstan::setup
