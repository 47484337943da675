#pragma once
#include <capstan/config/model_path.h>
#include <capstan/data.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "records/jsonl_data.h"
#include "tables/dataset.h"
#include "tables/decoded_rows.h"

namespace parquet {

/// jsonl's options, which hold for rows as they do for lines, and where the rows come from.
struct ParquetOptions : jsonl::JsonlOptions {
  std::optional<std::string> dataset;
  std::string config;
  std::optional<std::string> train_split;
  std::optional<std::string> eval_split;
  std::vector<std::string> leave_out;
  std::string python;
  std::string decoded;

  static void describe(capstan::config::OptionTable<ParquetOptions>& t);
  static std::vector<capstan::config::FileKeys> file_keys() = delete;  // jsonl's are printed once
};

/// Samples from tables: files of Parquet or Arrow, folders of them, or a dataset in the hub's cache. A row is what a
/// line of JSON is to `jsonl`.
class ParquetData final : public jsonl::JsonlData {
 public:
  explicit ParquetData(capstan::config::Options<ParquetOptions> options);
  bool evaluates() const override { return !options_->eval.empty() || options_->eval_split.has_value(); }

 protected:
  std::filesystem::path kept_in() const override { return options_->decoded; }
  capstan::data::FileKind kind() const override;
  std::vector<capstan::data::SplitFile> files(capstan::Diagnostics& diagnostics) const override;
  capstan::data::SplitFile file_of(const capstan::data::SplitRequest& request) const override;
  std::shared_ptr<jsonl::Rows> rows(const capstan::data::SplitFile& split,
                                    capstan::Diagnostics& diagnostics) const override;

 private:
  void place(capstan::data::SplitFile& file, bool is_train) const;
  tables::TableFiles tables_of(const capstan::data::SplitFile& split, capstan::Diagnostics& diagnostics) const;
  tables::Python python() const { return {options_->python}; }

  capstan::config::Options<ParquetOptions> options_;
  mutable std::map<std::string, std::shared_ptr<jsonl::Rows>>
      rows_;  // by option and path: check and open read the same
};

}  // namespace parquet
