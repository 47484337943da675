#include "parquet.h"

#include <capstan/base/error.h>

#include <utility>

namespace parquet {

using namespace capstan;

namespace {

data::FileKind tables_kind() {
  return {"rows", "a file of Parquet or Arrow, or a folder of them", "name a file of Parquet or Arrow, or a folder"};
}

}  // namespace

void ParquetOptions::describe(config::OptionTable<ParquetOptions>& t) {
  data::describe_split_files(t,
                             "table to train on, whose rows are as jsonl's lines: a file of Parquet or Arrow, of JSON "
                             "lines, JSON or CSV, also "
                             "with .gz, .bz2, .xz or .zst, or a folder of such files",
                             "table to evaluate on", tables_kind());
  config::OptionTable<tables::TableOptions> of_dataset(t);
  TableOptions::describe(of_dataset);
  t.add("leave_out", &ParquetOptions::leave_out).doc("columns that are not read: images, say, which are no text");
  config::OptionTable<jsonl::JsonlOptions> of_rows(t);
  describe_samples(of_rows);
}

ParquetData::ParquetData(config::Options<ParquetOptions> options)
    : JsonlData(config::Options<jsonl::JsonlOptions>(options)),
      options_(std::move(options)),
      splits_(config::Options<tables::TableOptions>(options_)) {}

data::FileKind ParquetData::kind() const { return tables_kind(); }

std::vector<data::SplitFile> ParquetData::files(Diagnostics& diagnostics) const {
  auto all = data::all_files(options_, diagnostics);
  splits_.place(all, diagnostics);
  return all;
}

data::SplitFile ParquetData::file_of(const data::SplitRequest& request) const {
  return splits_.placed(data::requested_file(options_, request), request);
}

std::shared_ptr<jsonl::Rows> ParquetData::rows(const data::SplitFile& split, Diagnostics& diagnostics) const {
  if (!splits_.is_of_dataset(split) && !split.is_there(tables_kind(), diagnostics)) return nullptr;
  auto& rows = rows_[split.key + split.path];
  try {
    if (rows) return rows;
    const auto tables = splits_.tables_of(split,
                                          {.name = {},
                                           .files = {},
                                           .leave_out = options_->leave_out,
                                           .folder = options_->derived,
                                           .python = {options_->python}},
                                          diagnostics);
    if (!tables.files.empty()) rows = std::make_shared<tables::DecodedRows>(tables);
    return rows;
  } catch (const Error& error) {
    for (const auto& fault : error.diagnostics()) diagnostics.add(fault);
    return nullptr;
  }
}

}  // namespace parquet

CAPSTAN_DATA("parquet", "1.0", "tables: Parquet, Arrow and CSV files, and datasets in the hub's cache",
             parquet::ParquetData, parquet::ParquetOptions)
