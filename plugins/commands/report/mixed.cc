#include "mixed.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <array>
#include <set>

namespace report {

using namespace capstan;
using namespace runs;

namespace {

struct Difference {
  std::string option;
  std::string here;
  std::string of_base;
};

std::string shown(const Run& run, const std::string& option) {
  const auto found = run.options.find(option);
  return found == run.options.end() ? "not set" : config::value_text(found->second);
}

// The options that say most come first: a model of another kind differs in many.
std::vector<Difference> differences(const Run& run, const Run& base, const std::string& table,
                                    const std::vector<std::string>& grows) {
  std::vector<std::string> keys{table + "plugin", table + "path", table + "preset", table + "train"};
  for (const auto* one : {&run, &base}) {
    for (const auto& [key, value] : one->options) {
      if (key.starts_with(table)) keys.push_back(key);
    }
  }
  std::vector<Difference> found;
  std::set<std::string> seen(grows.begin(), grows.end());
  seen.insert("data.cache");  // where samples are kept changes none of them
  for (const auto& key : keys) {
    if (!seen.insert(key).second) continue;
    const auto here = shown(run, key);
    const auto there = shown(base, key);
    if (here != there) found.push_back({key, here, there});
  }
  return found;
}

std::vector<Difference> batch_differences(const Run& run, const Run& base) {
  const std::string global = "train.global_batch";
  const auto of_rank = [](const Run& one) {
    return one.option("train.micro_batch").value_or(0) * one.option("train.accumulation").value_or(0);
  };
  if (of_rank(run) == of_rank(base) || !run.option(global) || !base.option(global)) return {};
  if (run.option(global) == base.option(global)) return {};
  return {{global, shown(run, global), shown(base, global)}};
}

// One sentence on all runs that differ from the base in `what`.
void add_sentence(const std::string& what, const Run& base, const std::vector<std::pair<std::string, Difference>>& all,
                  std::vector<std::string>& sentences) {
  if (all.empty()) return;
  const auto& [name, first] = all.front();
  sentences.push_back(cat("the table mixes ", what, ": in ", name, " ", first.option, " is ", first.here, ", in ",
                          base.name, " ", first.of_base,
                          all.size() > 1 ? cat("; ", all.size() - 1, " more differ from it, too") : ""));
}

}  // namespace

std::vector<std::string> what_is_mixed(const std::vector<Run>& runs, const Run& base,
                                       const std::vector<std::string>& grows) {
  std::array<std::vector<std::pair<std::string, Difference>>, 3> differing;
  for (const auto& run : runs) {
    const std::array<std::vector<Difference>, 3> found{
        differences(run, base, "model.", grows), differences(run, base, "data.", grows), batch_differences(run, base)};
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!found[i].empty()) differing[i].emplace_back(run.name, found[i].front());
    }
  }
  std::vector<std::string> sentences;
  add_sentence("models", base, differing[0], sentences);
  add_sentence("data", base, differing[1], sentences);
  add_sentence("batch sizes", base, differing[2], sentences);
  return sentences;
}

}  // namespace report
