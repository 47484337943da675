#include "hub_splits.h"

#include "dataset.h"

#include <capstan/base/text.h>
#include <capstan/config/model_path.h>
#include <capstan/data_parts/derived_file.h>

#include <filesystem>

namespace tables {

using namespace capstan;

void TableOptions::describe(config::OptionTable<TableOptions>& t) {
  t.add("dataset", &TableOptions::dataset)
      .doc(
          "in place of train and eval: a dataset in the hub's cache (\"squad\", \"org/name\", \"org/name@revision\"), "
          "or "
          "the whole path of a folder that is laid out like one");
  t.add("config", &TableOptions::config)
      .doc("the dataset's configuration, of those that its README.md lists; not set: the only one, or the default");
  t.add("train_split", &TableOptions::train_split).doc("the dataset's split to train on, such as \"train\"");
  t.add("eval_split", &TableOptions::eval_split).doc("the dataset's split to evaluate on, such as \"validation\"");
}

// The path is the name of the dataset until it is opened.
void HubSplits::place(data::SplitFile& file, bool is_train) const {
  const auto member = is_train ? &TableOptions::train_split : &TableOptions::eval_split;
  if (!options_->dataset || !((*options_).*member)) return;
  file.key = options_.name(member);
  file.where = options_.where(member);
  file.path = *options_->dataset;
}

void HubSplits::place(std::vector<data::SplitFile>& all, Diagnostics& diagnostics) const {
  const bool names_split = options_->train_split || options_->eval_split;
  if (!options_->dataset && names_split) {
    const auto member = options_->train_split ? &TableOptions::train_split : &TableOptions::eval_split;
    diagnostics.add(options_.where(member), cat(options_.name(member), " is set, and data.dataset is not"),
                    "set data.dataset, or name files with data.train and data.eval");
  }
  if (options_->dataset && (!all[0].path.empty() || !all[1].path.empty())) {
    diagnostics.add(options_.where(&TableOptions::dataset), "data.dataset is set, and a file too",
                    "take data.dataset out, or data.train and data.eval");
  }
  place(all[0], true);
  place(all[1], false);
}

data::SplitFile HubSplits::placed(data::SplitFile file, const data::SplitRequest& request) const {
  if (request.set.empty()) place(file, request.split == data::Split::train);
  return file;
}

bool HubSplits::is_of_dataset(const data::SplitFile& split) const {
  return split.key == options_.name(&TableOptions::train_split) ||
         split.key == options_.name(&TableOptions::eval_split);
}

TableFiles HubSplits::tables_of(const data::SplitFile& split, TableFiles tables, Diagnostics& diagnostics) const {
  tables.name = split.path;
  if (!is_of_dataset(split)) {
    tables.files = files_in(split.path, split.key, split.where, diagnostics);
    return tables;
  }
  const Dataset dataset{*options_->dataset, options_->config, options_.where(&TableOptions::dataset)};
  const auto folder = folder_of(dataset, config::hub_cache(data::process_environment()));
  const bool is_train = split.key == options_.name(&TableOptions::train_split);
  const auto& name = is_train ? *options_->train_split : *options_->eval_split;
  tables.name = cat(folder, " (", name, ")");
  if (const auto commit = unnamed_commit(dataset, folder); !commit.empty())
    tables.content = cat("commit ", commit, " of ", dataset.name);
  tables.files = files_of_split(dataset, folder, name, tables.python);
  if (std::filesystem::path(dataset.name).is_absolute()) {  // no commit says what is in it
    std::vector<std::string> contents;
    for (const auto& file : tables.files)
      contents.push_back(cat(std::filesystem::path(file).filename().string(), " of ", trim(data::content_key(file))));
    tables.content = join(contents);
  }
  return tables;
}

}  // namespace tables
