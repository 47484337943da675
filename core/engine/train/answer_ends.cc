#include "train/answer_ends.h"

#include <capstan/base/json.h>
#include <capstan/record/checkpoints.h>

#include "job/weights.h"
#include "plugin/guard.h"

namespace capstan::train {

std::vector<std::int64_t> answer_ends(const job::Samples& samples) {
  std::vector<std::int64_t> ends;
  if (const auto end = samples.tokenizer.object ? samples.tokenizer.object->end_id() : -1; end >= 0)
    ends.push_back(end);
  if (!samples.train) return ends;
  const auto more = plugin::guard(samples.plugin, "end_ids", [&] { return samples.train->end_ids(); });
  ends.insert(ends.end(), more.begin(), more.end());
  return ends;
}

std::vector<std::int64_t> saved_answer_ends(const std::filesystem::path& weights) {
  const checkpoint::Checkpoint saved(job::folder_of_boxes(weights));
  if (!saved.has_section(answer_ends_section)) return {};
  return Json::parse(saved.section(answer_ends_section)).get<std::vector<std::int64_t>>();
}

}  // namespace capstan::train
