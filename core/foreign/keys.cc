#include "foreign/keys.h"

#include <capstan/base/text.h>

#include <algorithm>

#include "base/lower.h"
#include "foreign/deepspeed_keys.h"
#include "foreign/lists.h"

namespace capstan::foreign {
namespace {

std::string last_part(const std::string& dotted) { return dotted.substr(dotted.rfind('.') + 1); }

std::vector<Key> all_keys() {
  std::vector<Key> all;
  const auto add = [&](const std::string& program, const std::vector<Line>& lines) {
    for (const auto& line : lines) all.push_back({program, line.key, line.ours, line.why});
  };
  add("env_vars.sh", workshop_variables());
  add("TrainingArguments", training_arguments());
  add("fsdp_config", fsdp_config());
  for (const auto& key : deepspeed_keys()) {
    const auto why = key.take == Take::required ? cat("only ", key.required, ": ", key.why) : key.why;
    all.push_back({"DeepSpeed", key.path, key.ours, why});
  }
  add("NeMo", nemo_overrides());
  add("launchers", launcher_flags());
  return all;
}

// The only answer of these keys; null where they differ, or there are none.
const Key* common_answer(const std::vector<const Key*>& found) {
  const auto differs = [&](const Key* key) { return key->ours != found.front()->ours; };
  return found.empty() || std::any_of(found.begin(), found.end(), differs) ? nullptr : found.front();
}

}  // namespace

const std::vector<std::string>& programs() {
  static const std::vector<std::string> names{"env_vars.sh", "TrainingArguments", "fsdp_config", "DeepSpeed",
                                              "NeMo",        "launchers"};
  return names;
}

const std::vector<Key>& keys() {
  static const auto keys = all_keys();
  return keys;
}

const Key* find(const std::string& typed) {
  const auto name = lower(typed);
  // As typed, then without the tables before it; exact letters first.
  for (auto rest = typed; !rest.empty();) {
    const Key* near = nullptr;
    for (const auto& key : keys()) {
      if (key.key == rest) return &key;
      // "rank" in a table does not mean the environment variable RANK.
      const bool is_other = key.ours.empty() && rest != typed;
      if (!near && !is_other && lower(key.key) == lower(rest)) near = &key;
    }
    if (near) return near;
    const auto dot = rest.find('.');
    rest = dot == std::string::npos ? "" : rest.substr(dot + 1);
  }
  // The last part of a key that is in a table there, if it is unambiguous.
  std::vector<const Key*> found;
  for (const auto& key : keys()) {
    const bool in_table = key.key.find('.') != std::string::npos;
    if (in_table && last_part(lower(key.key)) == last_part(name)) found.push_back(&key);
  }
  return common_answer(found);
}

std::string program_of_table(const std::string& name) {
  for (const auto& key : keys()) {
    if (key.key.starts_with(name + ".")) return key.program;
  }
  return {};
}

std::string hint(const Key& key) {
  const auto from = cat(key.program, key.program.ends_with("s") ? "' " : "'s ", key.key);
  if (key.ours.empty()) return cat("not needed, ", from, ": ", key.why);
  return cat("did you mean '", key.ours, "'? (", from, key.why.empty() ? "" : cat("; ", key.why), ")");
}

std::string markdown(const std::string& program) {
  std::string out = "| typed today | in Capstan | |\n|---|---|---|\n";
  for (const auto& key : keys()) {
    if (key.program != program) continue;
    out += cat("| `", key.key, "` | ", key.ours.empty() ? "not needed" : cat("`", key.ours, "`"), " | ",
               key.ours.empty() ? "because: " : "", key.why, " |\n");
  }
  return out;
}

}  // namespace capstan::foreign
