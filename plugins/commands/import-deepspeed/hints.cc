#include "hints.h"

#include <capstan/base/text.h>

#include "deepspeed_keys.h"
#include "lists.h"

namespace import_deepspeed {
namespace {

std::vector<Line> deepspeed_lines() {
  std::vector<Line> out;
  for (const auto& key : deepspeed_keys()) {
    const auto why = key.take == Take::required ? capstan::cat("only ", key.required, ": ", key.why) : key.why;
    out.push_back({key.path, key.ours, why});
  }
  return out;
}

}  // namespace

std::vector<capstan::plugin::Hint> all_hints() {
  std::vector<capstan::plugin::Hint> all;
  const auto add = [&](const char* program, const std::vector<Line>& lines) {
    for (const auto& line : lines) all.push_back({program, line.key, line.ours, line.why, "docs/from-the-workshop.md"});
  };
  add("env_vars.sh", workshop_variables());
  add("TrainingArguments", training_arguments());
  add("fsdp_config", fsdp_config());
  add("DeepSpeed", deepspeed_lines());
  add("NeMo", nemo_overrides());
  add("launchers", launcher_flags());
  return all;
}

}  // namespace import_deepspeed
