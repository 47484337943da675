#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "data.h"

namespace import_axolotl {

using namespace capstan;

namespace {

namespace fs = std::filesystem;

bool has_extension(const std::string& path) {
  static const std::array<const char*, 7> known{".jsonl", ".json", ".parquet", ".csv", ".arrow", ".txt", ".zst"};
  const auto extension = lower(fs::path(path).extension().string());
  return std::find(known.begin(), known.end(), extension) != known.end();
}

// What datasets calls its builders: the files are named besides.
bool is_builder(const std::string& path) {
  return path == "json" || path == "parquet" || path == "csv" || path == "arrow" || path == "text";
}

void take_file(const DataSet& data, const std::string& path, const std::string& name) {
  data.set("plugin", fs::path(path).extension() == ".jsonl" ? "jsonl" : "parquet", name);
  data.set("train", data.import.local(path), name);
}

// "train[:500]", "train[:10%]".
void take_split(const DataSet& data) {
  const auto split = data.has("split") ? data.text("split") : "train";
  const auto bracket = split.find('[');
  const std::string from = data.has("split") ? "split" : "path";
  if (split.find('+') != std::string::npos)
    return data.choose("train_split", "\"train\"", cat("one split; axolotl's is ", split), "split");
  data.set("train_split", split.substr(0, bracket), from);
  if (bracket == std::string::npos) return;
  const auto part = split.substr(bracket);
  const auto first = part.starts_with("[:") && part.ends_with("]")
                         ? number_in<std::int64_t>(std::string_view(part).substr(2, part.size() - 3))
                         : std::nullopt;
  if (first && *first > 0) return data.set("train_samples", *first, "split");
  data.choose("train_samples", "1000", cat("a number of first rows; axolotl's are ", part, " of the split"), "split");
}

void take_hub(const DataSet& data) {
  const auto path = data.text("path"), revision = data.text("revision");
  const auto files = data.import.texts(data.key("data_files"));
  data.set("plugin", "parquet", "path");
  if (!files.empty()) {
    return data.choose("train", "\"FILE\"",
                       cat("`hf download --repo-type dataset ", path, " ", files.front(), "` prints the file's path",
                           files.size() > 1 ? "; one file or folder" : ""),
                       "data_files");
  }
  data.set("dataset", revision.empty() ? path : cat(path, "@", revision), "path");
  if (data.has("name")) data.set("config", data.text("name"), "name");
  take_split(data);
}

}  // namespace

bool is_of_hub(const std::string& data_set) {
  return !is_there(data_set) && !data_set.starts_with(".") && !data_set.starts_with("/") && !has_extension(data_set) &&
         !is_builder(data_set);
}

void take_place(const DataSet& data) {
  const auto path = data.text("path");
  const auto files = data.import.texts(data.key("data_files"));
  if (path.empty())
    return data.import.fault(data.path, "has no path", "name a file, a folder or a data set of the hub");
  if (path.find("://") != std::string::npos) {
    data.set("plugin", "parquet", "path");
    return data.choose("train", "\"FILE\"", "download it, and name the file: a run downloads nothing", "path");
  }
  if (is_of_hub(path)) return take_hub(data);
  if (files.empty()) return take_file(data, path, "path");
  const auto first = is_builder(path) ? fs::path(files.front()) : fs::path(path) / files.front();
  take_file(data, first.string(), "data_files");
  if (files.size() > 1)
    data.import.note(data.key("data_files"), "names several files, and the first is taken: name their folder");
}

}  // namespace import_axolotl
