#include <capstan/base/text.h>

#include <cmath>
#include <map>

#include "parts.h"

namespace import_axolotl {

using namespace capstan;

namespace {

const std::map<std::string, std::string>& schedules() {
  static const std::map<std::string, std::string> all{{"cosine", "cosine"},
                                                      {"linear", "linear"},
                                                      {"constant", "constant"},
                                                      {"constant_with_warmup", "constant"},
                                                      {"cosine_with_restarts", "cosine_restarts"},
                                                      {"cosine_with_min_lr", "cosine"},
                                                      {"inverse_sqrt", "inverse_sqrt"},
                                                      {"warmup_stable_decay", "wsd"}};
  return all;
}

void take_argument(Import& import, const std::string& name, const Json& value) {
  const auto path = "lr_scheduler_kwargs." + name;
  const auto lr = import.number("learning_rate").value_or(0);
  static const std::map<std::string, std::string> counts{{"num_cycles", "optimizer.restarts"},
                                                         {"num_decay_steps", "optimizer.decay_steps"}};
  if (!value.is_number() || std::abs(value.get<double>()) > 1e9)
    return import.fault(path, cat("is ", value.dump()), "set [optimizer]'s options yourself, and remove it");
  const auto number = value.get<double>();
  if (counts.contains(name)) return import.set(counts.at(name), static_cast<std::int64_t>(number), path);
  if (name == "min_lr") return import.set("optimizer.min_lr", number, path);
  if (name == "min_lr_rate" || name == "min_lr_ratio") return import.set("optimizer.min_lr", number * lr, path);
  import.fault(path, "has no counterpart in Capstan", "set [optimizer]'s options yourself, and remove it");
}

void take_arguments(Import& import) {
  const auto* arguments = import.find("lr_scheduler_kwargs");
  if (arguments == nullptr || arguments->empty()) return;
  if (!arguments->is_object())
    return import.fault("lr_scheduler_kwargs", cat("is ", arguments->dump(), ", expected a table"), "change it");
  for (const auto& [name, value] : arguments->items()) take_argument(import, name, value);
}

// A number below 1 is a share of all steps; axolotl makes one step two.
void take_warmup(Import& import) {
  const auto steps = import.number("warmup_steps"), ratio = import.number("warmup_ratio");
  if (steps && *steps > 0 && *steps < 1) {
    import.set("optimizer.warmup_ratio", *steps, "warmup_steps");
  } else if (steps) {
    const auto whole = static_cast<std::int64_t>(*steps);
    import.set("optimizer.warmup_steps", whole == 1 ? 2 : whole, "warmup_steps");
  } else if (ratio) {
    import.set("optimizer.warmup_ratio", *ratio, "warmup_ratio");
  } else {
    import.set_default("optimizer.warmup_ratio", 0.03, "axolotl's default, which is at most 100 steps there");
  }
  import.set_default("optimizer.warmup_from_zero", true, "Hugging Face's warm-up");
}

void take_least(Import& import, const std::string& name) {
  const auto ratio = import.number("cosine_min_lr_ratio").value_or(0);
  if (ratio == 0) return;
  if (name != "cosine") return import.note("cosine_min_lr_ratio", "is not taken over: lr_scheduler is not cosine");
  import.set("optimizer.min_lr", ratio * import.number("learning_rate").value_or(0), "cosine_min_lr_ratio");
}

}  // namespace

void take_schedule(Import& import) {
  const auto name = import.has("lr_scheduler") ? import.text("lr_scheduler") : "cosine";
  const auto found = schedules().find(name);
  if (found == schedules().end()) {
    return import.fault("lr_scheduler", cat("is ", name, ", which Capstan does not offer"),
                        "use cosine, linear, constant_with_warmup, cosine_with_restarts, inverse_sqrt, "
                        "cosine_with_min_lr or warmup_stable_decay");
  }
  if (import.has("lr_scheduler")) {
    import.set("optimizer.schedule", found->second, "lr_scheduler");
  } else {
    import.set_default("optimizer.schedule", found->second, "axolotl's default");
  }
  take_arguments(import);
  take_least(import, name);
  if (name == "constant") {
    if (import.has("warmup_steps") || import.has("warmup_ratio"))
      import.note("lr_scheduler", "is constant, which has no warm-up; constant_with_warmup has one");
    return;
  }
  take_warmup(import);
  if (found->second == "wsd" && import.settings().find("optimizer.decay_steps") == nullptr)
    import.choose("optimizer.decay_ratio", "0.1", "the share of the steps in which the rate falls", "lr_scheduler");
}

}  // namespace import_axolotl
