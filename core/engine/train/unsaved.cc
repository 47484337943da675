#include "train/unsaved.h"

#include <capstan/base/log.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <array>

#include "setup/schedule.h"

namespace capstan::train {

namespace {

// A user who switches saving off in this command means it, whatever the file says of what would be saved.
bool is_switched_off(const config::Options<setup::CheckpointOptions>& options) {
  static constexpr std::array switches{"every_steps", "every_minutes", "every_epoch", "every_eval", "keep_best"};
  const auto& all = options.resolved();
  return std::any_of(all.begin(), all.end(), [](const auto& option) {
    return option.origin.layer == config::Origin::Layer::command_line &&
           std::find(switches.begin(), switches.end(), option.spec.key) != switches.end();
  });
}

std::string text_of(const std::vector<std::string>& names, bool on_interrupt) {
  return cat(join(names), names.size() > 1 ? " are" : " is", " set, but this run saves no checkpoints",
             on_interrupt ? " unless Ctrl-C stops it" : "", ": add checkpoint.every_minutes = 15");
}

}  // namespace

std::string unsaved_warning(const config::Options<setup::CheckpointOptions>& options) {
  if (options->saves() || is_switched_off(options)) return {};
  // The others say themselves that they save, or are judged with them.
  static constexpr std::array counted{"keep", "save", "asynchronous", "resume"};
  std::vector<std::string> names;
  std::string where;
  for (const auto& option : options.resolved()) {
    const auto& key = option.spec.key;
    if (std::find(counted.begin(), counted.end(), key) == counted.end()) continue;
    // A run's own config.toml sets every option, mostly to what it is anyway.
    if (option.origin.layer == config::Origin::Layer::default_value || option.value == option.spec.default_value)
      continue;
    if (key == "resume" && (options->resume != "auto" || options->on_interrupt)) continue;  // a place to begin from
    if (names.empty()) where = option.origin.text();
    names.push_back("checkpoint." + key);
  }
  if (names.empty()) return {};
  return cat(where, ": ", text_of(names, options->on_interrupt));
}

void warn_of_options(const job::Job& job) {
  for (const auto& text :
       {unsaved_warning(job.config.checkpoint), setup::long_warmup(job.config.optimizer, job.samples.plan.steps)}) {
    if (!text.empty()) log::warning(text);
  }
}

}  // namespace capstan::train
