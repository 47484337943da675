#include <capstan/base/counted.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/data_parts/split_file.h>

#include <algorithm>
#include <filesystem>

namespace capstan::data {

bool SplitFile::is_there(const FileKind& kind, Diagnostics& diagnostics) const {
  if (path.empty()) {
    if (samples) diagnostics.add(samples_where, samples_key + " is set, but " + key + " names no file", "set " + key);
    return false;
  }
  if (capstan::is_there(path)) return true;
  diagnostics.add(where, cat(key, ": there is no file ", path), kind.absent);
  return false;
}

bool SplitFile::is_enough(std::int64_t held, const FileKind& kind, Diagnostics& diagnostics) const {
  if (held == 0) {
    diagnostics.add(where, cat(key, ": ", path, " holds no ", kind.items), cat("name a file with ", kind.items));
    return false;
  }
  if (!samples || *samples <= held) return true;
  diagnostics.add(samples_where,
                  cat(samples_key, " is ", thousands(*samples), ", ", path, " holds ", thousands(held), " ",
                      plural(held, kind.items.substr(0, kind.items.size() - 1), kind.items)),
                  cat("use ", held, " or less, or leave ", samples_key, " out for all of them"));
  return false;
}

std::vector<std::string> names_of_sets(const std::vector<std::string>& files) {
  std::vector<std::string> names;
  for (const auto& file : files) names.push_back(std::filesystem::path(file).stem().string());
  return names;
}

void check_names_of_sets(const std::vector<std::string>& files, const std::string& key, const std::string& where,
                         Diagnostics& diagnostics) {
  constexpr const char* word = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  const auto names = names_of_sets(files);
  for (auto name = names.begin(); name != names.end(); ++name) {
    const auto& file = files[static_cast<std::size_t>(name - names.begin())];
    if (name->empty() || name->find_first_not_of(word) != std::string::npos) {
      diagnostics.add(where, cat(key, " has ", file, ", and its figures would be named after '", *name, "'"),
                      "give the file a name of letters, digits, '_' and '-', which a link to it may have too");
    } else if (std::find(names.begin(), name, *name) != name) {
      diagnostics.add(where, cat(key, " has two files of the name '", *name, "'"),
                      "give them names of their own, which links to them may have too");
    }
  }
}

void require_file(const SplitFile& train, const SplitFile& eval, const std::string& where, const FileKind& kind,
                  Diagnostics& diagnostics) {
  if (!train.path.empty() || !eval.path.empty()) return;
  diagnostics.add(where, cat("neither ", train.key, " nor ", eval.key, " names a file"),
                  cat("set ", train.key, " to ", kind.format));
}

}  // namespace capstan::data
