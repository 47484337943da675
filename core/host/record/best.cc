#include <capstan/base/json.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>
#include <capstan/record/checkpoints.h>

namespace capstan::checkpoint {
namespace {

// Without a metric: the run keeps no best one. Earlier versions wrote the step instead of the rule.
BestRule rule_of(const Checkpoint& one) {
  if (!one.has_section(BestRule::section)) return {};
  const auto json = try_parse_json(one.section(BestRule::section));
  if (!json.is_object() || !json.contains("metric") || !json.at("metric").is_string()) return {};
  return {json.at("metric").get<std::string>(), !json.contains("mode") || json.at("mode") != "max"};
}

}  // namespace

std::string BestRule::text() const { return Json{{"metric", metric}, {"mode", lowest ? "min" : "max"}}.dump(); }

std::optional<Best> best_by(const BestRule& rule, const std::vector<Checkpoint>& all) {
  std::optional<Best> best;
  for (const auto& one : all) {
    const auto& meta = one.meta();
    const auto found = meta.metrics.find(rule.metric);
    if (found == meta.metrics.end()) continue;
    const bool is_earlier = best && found->second == best->value && meta.step < best->step;
    if (!best || rule.is_better(found->second, best->value) || is_earlier)
      best = Best{one.path(), meta.step, found->second};
  }
  return best;
}

std::optional<Best> best_kept(const std::vector<Checkpoint>& newest_first) {
  for (const auto& one : newest_first) {
    if (auto best = best_by(rule_of(one), newest_first)) return best;
  }
  return {};
}

std::vector<Checkpoint> whole_ones(const std::filesystem::path& folder) {
  std::vector<Checkpoint> out;
  for (const auto& path : committed(folder)) {
    try {
      out.emplace_back(path);
    } catch (const Error& error) {
      log::warning(cat("a checkpoint that is damaged or cannot be read is left alone and not counted: ", error.what()));
    }
  }
  return out;
}

}  // namespace capstan::checkpoint
