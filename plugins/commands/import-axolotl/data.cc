#include "data.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "parts.h"

namespace import_axolotl {

using namespace capstan;

namespace {

std::string list_of(const Import& import) {
  return import.has("datasets") ? "datasets" : import.has("pretraining_dataset") ? "pretraining_dataset" : "";
}

std::size_t count_of(const Import& import, const std::string& list) {
  const auto* found = import.find(list);
  return found != nullptr && found->is_array() ? found->size() : 0;
}

// A source's name: the last part of its path, in letters, digits, "_" and "-"; numbered where two are alike.
std::string name_of(const DataSet& data, std::set<std::string>& taken) {
  auto name = std::filesystem::path(data.text("path")).filename().stem().string();
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0 && c != '_' && c != '-'; }, '-');
  if (name.empty()) name = "data";
  auto out = name;
  for (int number = 2; !taken.insert(out).second; ++number) out = cat(name, "-", number);
  return out;
}

// What all rows share, in the table of their plugin.
void take_lengths(const DataSet& data) {
  auto& import = data.import;
  const auto length = static_cast<std::int64_t>(import.number("sequence_len").value_or(512));
  import.set(data.table + ".max_length", length, "sequence_len");
  const auto strategy = import.text("excess_length_strategy");
  const auto option = data.table + ".too_long";
  const auto type = data.text("type");
  if (type == "completion" || data.path.starts_with("pretraining")) {
    return import.choose(option, "\"cut\"",
                         "axolotl makes several samples of a longer text; here it is cut, dropped or refused, and the "
                         "plugin stream fills rows with documents",
                         data.key("path"));
  }
  if (strategy == "truncate") {
    return import.choose(option, "\"cut\"",
                         "prompts and conversations lose their beginning here, and their end in axolotl",
                         "excess_length_strategy");
  }
  import.set(option, strategy == "raise" ? "error" : "drop", "excess_length_strategy");
}

void take_set(const DataSet& data) {
  take_place(data);
  take_lengths(data);
  take_form(data);
}

// Evaluation sets of the one data set's own: files, or another split.
void take_test_sets(Import& import, const DataSet& train) {
  const auto count = count_of(import, "test_datasets");
  std::vector<std::string> files;
  for (std::size_t i = 0; i < count; ++i) {
    const DataSet test{import, cat("test_datasets[", i, "]"), train.table};
    const auto path = test.text("path");
    if (test.text("type") != train.text("type") || is_of_hub(path) != is_of_hub(train.text("path"))) {
      test.choose("eval", "\"eval.jsonl\"", "rows of the same form and place as those to train on", "path");
    } else if (!is_of_hub(path)) {
      files.push_back(import.local(path));
    } else if (path == train.text("path")) {
      test.set("eval_split", test.has("split") ? test.text("split") : "train", test.has("split") ? "split" : "path");
    } else {
      test.choose("eval", "\"eval.jsonl\"",
                  cat("the rows of ", path, " in a file: a table names one data set of the hub"), "path");
    }
  }
  if (files.empty()) return;
  import.set(train.table + ".eval", files.front(), "test_datasets");
  if (files.size() > 1)
    import.set(train.table + ".eval_files", std::vector<std::string>(files.begin() + 1, files.end()), "test_datasets");
}

void take_share(Import& import) {
  const auto share = import.number("val_set_size").value_or(0);
  if (share <= 0) return;
  if (share < 1) return import.set("data.eval_fraction", share, "val_set_size");
  import.choose("data.eval_fraction", "0.02", cat("a share of the rows; axolotl's is a number, ", number_text(share)),
                "val_set_size");
}

void take_sources(Import& import, const std::string& list, std::size_t count) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    const DataSet source{import, cat(list, "[", i, "]"), cat("data.sources.", i)};
    source.set("name", name_of(source, names), "path");
    take_set(source);
    source.choose("weight", "1.0", "axolotl takes each row once an epoch: the sources' numbers of rows", "path");
  }
  if (count_of(import, "test_datasets") > 0)
    import.choose("data.sources.0.eval", "\"eval.jsonl\"", "which source has the rows to evaluate on", "test_datasets");
}

}  // namespace

void take_data(Import& import) {
  const auto list = list_of(import);
  const auto count = count_of(import, list);
  if (count == 0) return import.fault(list.empty() ? "datasets" : list, "names no data set", "write a list of them");
  if (count == 1) {
    const DataSet data{import, list + "[0]", "data"};
    take_set(data);
    take_test_sets(import, data);
  } else {
    take_sources(import, list, count);
  }
  take_share(import);
}

}  // namespace import_axolotl
