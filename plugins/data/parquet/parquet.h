#pragma once
#include <capstan/data.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "records/jsonl_data.h"
#include "tables/hub_splits.h"

namespace parquet {

/// jsonl's options, which hold for rows as they do for lines, and where the rows come from.
struct ParquetOptions : jsonl::JsonlOptions, tables::TableOptions {
  std::vector<std::string> leave_out;

  static void describe(capstan::config::OptionTable<ParquetOptions>& t);
  static std::vector<capstan::config::FileKeys> file_keys() = delete;  // jsonl's are printed once
};

/// Samples from tables: files of Parquet or Arrow, folders of them, or a dataset in the hub's cache. A row is what a
/// line of JSON is to `jsonl`.
class ParquetData final : public jsonl::JsonlData {
 public:
  explicit ParquetData(capstan::config::Options<ParquetOptions> options);
  bool evaluates() const override { return !options_->eval.empty() || splits_.evaluates(); }

 protected:
  capstan::data::FileKind kind() const override;
  std::vector<capstan::data::SplitFile> files(capstan::Diagnostics& diagnostics) const override;
  capstan::data::SplitFile file_of(const capstan::data::SplitRequest& request) const override;
  std::shared_ptr<jsonl::Rows> rows(const capstan::data::SplitFile& split,
                                    capstan::Diagnostics& diagnostics) const override;

 private:
  capstan::config::Options<ParquetOptions> options_;
  tables::HubSplits splits_;
  mutable std::map<std::string, std::shared_ptr<jsonl::Rows>>
      rows_;  // by option and path: check and open read the same
};

}  // namespace parquet
