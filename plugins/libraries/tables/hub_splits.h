#pragma once
#include "decoded_rows.h"
#include "options.h"

#include <capstan/data/source.h>
#include <capstan/data_parts/split_file.h>

#include <string>
#include <utility>
#include <vector>

namespace tables {

/// The splits that options name: files and folders with data.train and data.eval, or a dataset's.
class HubSplits {
 public:
  explicit HubSplits(capstan::config::Options<TableOptions> options) : options_(std::move(options)) {}

  /// Puts the dataset's splits into the places of training and evaluation, the first two of `all`. Adds a fault for
  /// options that contradict each other.
  void place(std::vector<capstan::data::SplitFile>& all, capstan::Diagnostics& diagnostics) const;
  /// The same for the file of a request.
  capstan::data::SplitFile placed(capstan::data::SplitFile file, const capstan::data::SplitRequest& request) const;
  /// Whether it is a split of the dataset, whose name is then its path.
  bool is_of_dataset(const capstan::data::SplitFile& split) const;
  bool evaluates() const { return options_->eval_split.has_value(); }
  /// What its rows are in, with the name and the files of `tables` filled in. Without files after a fault was added;
  /// throws Error for a dataset that is not there.
  TableFiles tables_of(const capstan::data::SplitFile& split, TableFiles tables,
                       capstan::Diagnostics& diagnostics) const;

 private:
  void place(capstan::data::SplitFile& file, bool is_train) const;

  capstan::config::Options<TableOptions> options_;
};

}  // namespace tables
