#include "parquet.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/data_parts/derived_file.h>

#include <utility>

#include "tables/options.h"

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
  t.add("dataset", &ParquetOptions::dataset)
      .doc(
          "in place of train and eval: a dataset in the hub's cache (\"squad\", \"org/name\", \"org/name@revision\"), "
          "or "
          "the whole path of a folder that is laid out like one");
  t.add("config", &ParquetOptions::config)
      .doc("the dataset's configuration, of those that its README.md lists; not set: the only one, or the default");
  t.add("train_split", &ParquetOptions::train_split).doc("the dataset's split to train on, such as \"train\"");
  t.add("eval_split", &ParquetOptions::eval_split).doc("the dataset's split to evaluate on, such as \"validation\"");
  t.add("leave_out", &ParquetOptions::leave_out).doc("columns that are not read: images, say, which are no text");
  tables::describe_decoding(t, static_cast<std::string ParquetOptions::*>(&ParquetOptions::python),
                            &ParquetOptions::decoded);
  config::OptionTable<jsonl::JsonlOptions> of_rows(t);
  describe_samples(of_rows);
}

ParquetData::ParquetData(config::Options<ParquetOptions> options)
    : JsonlData(config::Options<jsonl::JsonlOptions>(options)), options_(std::move(options)) {}

data::FileKind ParquetData::kind() const { return tables_kind(); }

// A split of the dataset, where that is how the options name it. The path is the name of the dataset until it is
// opened.
void ParquetData::place(data::SplitFile& file, bool is_train) const {
  const auto member = is_train ? &ParquetOptions::train_split : &ParquetOptions::eval_split;
  if (!options_->dataset || !((*options_).*member)) return;
  file.key = options_.name(member);
  file.where = options_.where(member);
  file.path = *options_->dataset;
}

std::vector<data::SplitFile> ParquetData::files(Diagnostics& diagnostics) const {
  auto all = data::all_files(options_, diagnostics);
  const bool names_split = options_->train_split || options_->eval_split;
  if (!options_->dataset && names_split) {
    const auto member = options_->train_split ? &ParquetOptions::train_split : &ParquetOptions::eval_split;
    diagnostics.add(options_.where(member), cat(options_.name(member), " is set, and data.dataset is not"),
                    "set data.dataset, or name files with data.train and data.eval");
  }
  if (options_->dataset && (!all[0].path.empty() || !all[1].path.empty())) {
    diagnostics.add(options_.where(&ParquetOptions::dataset), "data.dataset is set, and a file too",
                    "take data.dataset out, or data.train and data.eval");
  }
  place(all[0], true);
  place(all[1], false);
  return all;
}

data::SplitFile ParquetData::file_of(const data::SplitRequest& request) const {
  auto file = data::requested_file(options_, request);
  if (request.set.empty()) place(file, request.split == data::Split::train);
  return file;
}

tables::TableFiles ParquetData::tables_of(const data::SplitFile& split, Diagnostics& diagnostics) const {
  tables::TableFiles tables{split.path, {}, options_->leave_out, options_->decoded, python()};
  const bool is_train = split.key == options_.name(&ParquetOptions::train_split);
  const bool is_of_dataset = is_train || split.key == options_.name(&ParquetOptions::eval_split);
  if (!is_of_dataset) {
    tables.files = tables::files_in(split.path, split.key, split.where, diagnostics);
    return tables;
  }
  const tables::Dataset dataset{*options_->dataset, options_->config, options_.where(&ParquetOptions::dataset)};
  const auto folder = tables::folder_of(dataset, config::hub_cache(data::process_environment()));
  const auto& name = is_train ? *options_->train_split : *options_->eval_split;
  tables.name = cat(folder, " (", name, ")");
  if (const auto commit = tables::unnamed_commit(dataset, folder); !commit.empty())
    tables.content = cat("commit ", commit, " of ", dataset.name);
  tables.files = tables::files_of_split(dataset, folder, name, python());
  return tables;
}

std::shared_ptr<jsonl::Rows> ParquetData::rows(const data::SplitFile& split, Diagnostics& diagnostics) const {
  const bool is_file = !options_->dataset || split.path != *options_->dataset;
  if (is_file && !split.is_there(tables_kind(), diagnostics)) return nullptr;
  auto& rows = rows_[split.key + split.path];
  try {
    if (rows) return rows;
    const auto tables = tables_of(split, diagnostics);
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
