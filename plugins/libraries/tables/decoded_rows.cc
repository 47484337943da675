#include "decoded_rows.h"

#include <capstan/base/counted.h>
#include <capstan/base/error.h>
#include <capstan/base/log.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/data_parts/derived_file.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace tables {

using namespace capstan;
namespace fs = std::filesystem;

namespace {

fs::path folder_of(const TableFiles& tables) {
  auto folder = tables.folder.empty() ? data::derived_folder(data::process_environment()) : tables.folder;
  if (!folder.empty()) return folder;
  throw Error("there is no folder for its decoded rows: HOME is not set", "set data.derived to a folder", tables.name);
}

// All that the decoded rows depend on.
std::string key_of(const TableFiles& tables) {
  std::string key = decode_script;
  for (const auto& file : tables.files) key += cat(fs::path(file).extension().string(), " ", data::content_key(file));
  for (const auto& column : tables.leave_out) key += cat("without ", column, "\n");
  return key;
}

// The file with the decoded rows.
std::string decoded(const TableFiles& tables) {
  const data::DerivedFile file{folder_of(tables), fs::path(tables.name).stem().string() + ".jsonl", key_of(tables),
                               "set data.derived to another folder"};
  const auto path = data::derive(file, [&](const fs::path& unfinished) {
    log::info(cat(tables.name, ": decoding ", counted(tables.files.size(), "file"), " into ", file.path().string()));
    ask_python(tables.python, decode_script,
               Json{{"files", tables.files}, {"leave_out", tables.leave_out}, {"output", unfinished.string()}},
               tables.name);
  });
  return path.string();
}

// What a name says of its file: the hub's programs call those of a split "train-00000-of-00002.parquet".
std::string split_word(const std::string& file) {
  const auto name = lower(file);
  const auto word = name.substr(0, name.find_first_not_of("abcdefghijklmnopqrstuvwxyz"));
  constexpr std::array words{"train", "validation", "test"};
  return std::find(words.begin(), words.end(), word) == words.end() ? std::string() : word;
}

bool is_table(const fs::path& path) {
  static const std::set<std::string> known{".parquet", ".arrow", ".jsonl", ".json", ".csv", ".tsv"};
  static const std::set<std::string> compressed{".gz", ".bz2", ".xz", ".zst"};
  static const std::set<std::string> others{"dataset_info.json", "dataset_infos.json", "state.json",
                                            "dataset_dict.json"};
  const auto kind = compressed.contains(path.extension().string()) ? path.stem().extension() : path.extension();
  return known.contains(kind.string()) && !others.contains(path.filename().string());
}

}  // namespace

DecodedRows::DecodedRows(const TableFiles& tables)
    : name_(tables.name), content_(tables.content), files_(tables.files), lines_(decoded(tables)) {
  const auto last = lines_.size() == 0 ? Json() : try_parse_json(lines_.line(lines_.size() - 1));
  const auto whole = last.is_object() && last.contains("rows") && last.at("rows").size() == files_.size();
  if (whole) {
    for (const auto& rows : last.at("rows"))
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + rows.get<std::int64_t>());
  }
  if (!whole || ends_.back() != size())
    throw Error("it is not what was decoded into it", "delete it: it is made again", lines_.path());
}

DecodedRows::Place DecodedRows::place(std::int64_t index) const {
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), index);
  return {static_cast<std::size_t>(end - ends_.begin()), index - (end == ends_.begin() ? 0 : *(end - 1)) + 1};
}

std::string DecodedRows::name(std::int64_t index) const { return cat("row ", place(index).row); }

std::string DecodedRows::where(std::int64_t index) const {
  const auto [file, row] = place(index);
  return cat(files_[file], " row ", row);
}

// The decoded file is named after all that it depends on.
std::string DecodedRows::key() const { return fs::path(lines_.path()).filename().string() + "\n"; }

std::vector<std::string> files_in(const std::string& path, const std::string& key, const std::string& where,
                                  Diagnostics& diagnostics) {
  if (!is_folder(path)) return {path};
  std::vector<std::string> files;
  std::set<std::string> splits;
  for (const auto& entry : entries_of(path)) {
    if (!is_file(entry) || !is_table(entry)) continue;
    files.push_back(entry.string());
    splits.insert(split_word(entry.filename().string()));
  }
  if (files.empty()) {
    diagnostics.add(where, cat(key, ": the folder ", path, " holds no table"),
                    "name a folder with files of Parquet, Arrow, JSON lines, JSON or CSV, or a file");
  }
  if (splits.size() > 1) {
    diagnostics.add(where, cat(key, ": the folder ", path, " holds files of several splits"),
                    cat(R"(name a file, or set data.dataset = ")", path, R"(", data.train_split and data.eval_split)"));
    return {};
  }
  return files;
}

}  // namespace tables
