#include <capstan/base/counted.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/data/split_file.h>

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

void require_file(const SplitFile& train, const SplitFile& eval, const std::string& where, const FileKind& kind,
                  Diagnostics& diagnostics) {
  if (!train.path.empty() || !eval.path.empty()) return;
  diagnostics.add(where, cat("neither ", train.key, " nor ", eval.key, " names a file"),
                  cat("set ", train.key, " to ", kind.format));
}

}  // namespace capstan::data
